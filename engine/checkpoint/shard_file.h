// Shards of a checkpoint: safetensors files (8 bytes little-endian length, a JSON header {name: {dtype, shape,
// data_offsets}}, then the bytes without gaps), so that any tool that knows the format can look inside.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"

namespace longhaul {

struct ShardTensor {
  std::string key;
  std::string dtype;  // "F32", "BF16", ...
  std::vector<std::int64_t> shape;
  std::string_view bytes;  // borrowed
};

// Writes and syncs the file. A full disk or quota is ErrorCode::io; what was written is removed.
Status write_shard(const std::string& path, std::span<const ShardTensor> tensors);

class ShardReader {
 public:
  // Checks the header against the file's size: a truncated or foreign file is ErrorCode::corrupt, named.
  static Result<ShardReader> open(const std::string& path);
  // nullptr: not in this file. Bytes are borrowed from the map.
  const ShardTensor* find(const std::string& key) const;
  const std::map<std::string, ShardTensor>& tensors() const { return tensors_; }

 private:
  explicit ShardReader(MappedFile file) : file_(std::move(file)) {}
  MappedFile file_;
  std::map<std::string, ShardTensor> tensors_;
};

}  // namespace longhaul
