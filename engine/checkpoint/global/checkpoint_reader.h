// Reads boxes of tensors out of a checkpoint, whatever layout wrote it: files are mapped, only the entries that are
// asked for are looked at, and each is held against its digest the first time.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "contracts/records/checkpoint_format.h"
#include "engine/checkpoint/format/shard_file.h"
#include "engine/parallel/mesh/box_copy.h"

namespace longhaul {

// Does the box lie in a tensor of this shape?
bool box_fits(const Box& box, const std::vector<std::int64_t>& shape);
// False where an entry cannot have an element of `to`, of the same tensor.
bool may_overlap(const CheckpointEntry& entry, const BoxRange& to);
// The elements of an entry in its shard (`file` is its path for errors), held against the digest.
Result<ConstView> verified_entry(const ShardReader& shard, const std::string& file, const CheckpointEntry& entry,
                                 bool check_digest = true);

class CheckpointReader {
 public:
  // Reads the manifest and checks that its entries cover everything. Shards are opened when they are first needed.
  // Errors name the file.
  static Result<std::unique_ptr<CheckpointReader>> open(const std::string& folder);

  const std::string& folder() const { return folder_; }
  const CheckpointManifest& manifest() const { return manifest_; }

  // Entries (as places in the manifest) that may hold elements of `to`.
  std::vector<std::size_t> entries_of(const std::string& tensor, const BoxRange& to) const;
  // The elements of an entry, verified. Any thread. ErrorCode::corrupt names the shard and the key.
  Result<ConstView> entry(std::size_t index);
  // What `to` has in common with an entry goes into `out`, which holds the elements of `to` in f32 or bf16; says how
  // many. Any thread.
  Result<std::int64_t> copy_entry(std::size_t index, const BoxRange& to, View out);
  // All elements of `to`.
  Status read(const std::string& tensor, const BoxRange& to, View out);

 private:
  CheckpointReader() = default;
  Result<const ShardReader*> shard(const std::string& file);

  std::string folder_;
  CheckpointManifest manifest_;
  std::map<std::string, std::vector<std::size_t>> entries_;  // of each tensor
  std::map<std::string, std::vector<std::int64_t>> shapes_;
  std::unique_ptr<std::atomic<bool>[]> verified_;
  std::mutex mutex_;  // of the map below; what is in it stays
  std::map<std::string, ShardReader> shards_;
};

}  // namespace longhaul
