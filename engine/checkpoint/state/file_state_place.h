// State in a file of its own on a disk of this node. The file has no name: it is gone with the process, however that
// ends. All of its space is taken when it is created, so that a full disk is said then and not in the middle of a step.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "base/files/files.h"
#include "engine/checkpoint/format/page_buffer.h"
#include "engine/checkpoint/state/optimizer_state_place.h"

namespace longhaul {

class FileStatePlace final : public OptimizerStatePlace {
 public:
  // Of at least `bytes`, in `folder` (which must exist). Errors name the folder, the node and the bytes: not_found, io
  // (a full disk).
  static Result<std::unique_ptr<FileStatePlace>> create(const std::string& folder, std::int64_t bytes,
                                                        MemoryAccount* account = nullptr);

  std::int64_t bytes() const override { return bytes_; }
  Status fetch(std::int64_t begin, std::span<std::byte> out) override;
  Status store(std::int64_t begin, std::span<const std::byte> from) override;
  // Past the page cache, which would take the memory that is to be saved; some file systems cannot.
  bool is_direct() const { return direct_; }

 private:
  FileStatePlace() = default;
  Status read(std::int64_t begin, std::byte* out, std::int64_t size) const;
  Status write(std::int64_t begin, const std::byte* from, std::int64_t size) const;
  // What is not whole pages goes through `bounce_`, so much at a time: use(bytes of the range that are in it).
  template <class Use>
  Status by_bounce(std::int64_t begin, std::int64_t size, const Use& use);

  std::string name_;  // for errors
  FileDescriptor file_;
  std::int64_t bytes_ = 0;
  bool direct_ = false;
  std::mutex mutex_;  // of bounce_
  PageBuffer bounce_;
};

}  // namespace longhaul
