// Room engine/checkpoint/format
// The bytes of a checkpoint: safetensors shards, written and read with direct I/O, and the memory for that.
// shard_file.h reads and writes one file; page_buffer.h is page-aligned (on a GPU: pinned) memory.
// It knows neither ranks nor a training: which tensor goes into which shard is engine/checkpoint/global's.
//
// Shards of a checkpoint: safetensors files (8 bytes little-endian length, a JSON header {name: {dtype, shape,
// data_offsets}}, then the bytes without gaps), so that any tool that knows the format can look inside. The header is
// filled up with spaces so that the data begins at a multiple of 4096 bytes, which direct I/O asks for.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "engine/checkpoint/format/page_buffer.h"

namespace longhaul {

struct ShardTensor {
  std::string key;
  std::string dtype;  // "F32", "BF16", ...
  std::vector<std::int64_t> shape;
  std::string_view bytes;  // borrowed
};

struct ShardWriteOptions {
  bool direct_io = false;                        // past the page cache, where the file system can
  const std::atomic<bool>* cancelled = nullptr;  // asked for between pieces; then ErrorCode::aborted
  unsigned mode = 0644;                          // of the file, under the umask
  std::atomic<std::int64_t>* written = nullptr;  // grows by every byte that the kernel has taken; borrowed
};

// One shard, written in the order of its header, as a new file: what has its name is removed before, and a link that is
// put there meanwhile is an error. A full disk or quota is ErrorCode::io, named; what was written of an
// unfinished file is removed.
class ShardWriter {
 public:
  // The header says which tensors follow; their `bytes` are not looked at.
  static Result<ShardWriter> create(const std::string& path, std::span<const ShardTensor> header,
                                    const ShardWriteOptions& options = {});
  ~ShardWriter();
  ShardWriter(ShardWriter&&) noexcept = default;
  ShardWriter& operator=(ShardWriter&&) = delete;

  // The next bytes of the data. With direct I/O, pieces of whole pages in memory that begins at a page go to the disk
  // as they are, everything else through a small buffer.
  Status append(std::string_view bytes);
  // Writes what is left and syncs. ErrorCode::internal if there were fewer bytes than the header says.
  Status finish();
  bool is_direct() const { return direct_; }

 private:
  ShardWriter() = default;
  Status write_pieces(std::string_view bytes);
  Status flush();

  std::string path_;
  ShardWriteOptions options_;
  FileDescriptor file_;
  bool direct_ = false;
  PageBuffer pending_;  // direct I/O: less than a page is never written before the end
  std::size_t pending_bytes_ = 0;
  std::uint64_t written_ = 0, wanted_ = 0;  // of the whole file
};

// Reads in what is mapped of a file: bytes that its file system does not give are ErrorCode::io here, where a look at
// them would end the process (SIGBUS). madvise(2), MADV_POPULATE_READ: Linux 5.14; an older kernel checks nothing.
Status read_in(std::string_view mapped, const std::string& path);

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
