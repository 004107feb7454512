// Room base/files
// Files as a shared file system needs them: whole or absent, written beside and renamed, claimed exclusively.
// files.h is for files that are ours; owned_files.h and owned_folder.h open what another user may have made.
// file_query.h and file_retry.h distinguish "not there" from "the file system gave no answer".
// It knows no formats: JSON and TOML are read by base/value and base from text that was read here.
//
// Files as Longhaul needs them on a shared file system: whole or absent. What matters is written beside its place,
// synced, and renamed; what must be claimed once is created exclusively. No file locks anywhere.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

// The whole file. Refuses directories and files above `size_max` bytes.
Result<std::string> read_file(const std::string& path, std::uint64_t size_max = 1ULL << 32);

// Writes beside (`path`.tmp.<pid>.<n>), syncs file and folder, renames over `path`. A reader sees the old or the new
// text.
Status write_file_atomic(const std::string& path, std::string_view text, unsigned mode = 0644);

// The same without the syncs, for files that are written again from elsewhere if the machine loses power (thousands of
// them before one submission). Never for the only copy of anything.
Status write_file_renamed(const std::string& path, std::string_view text, unsigned mode = 0644);

// Creates `path` with this text only if it does not exist (written beside, then link(2)): ErrorCode::conflict if it
// does. Exactly one of several concurrent callers succeeds, on NFS and Lustre too.
Status create_file_exclusive(const std::string& path, std::string_view text, unsigned mode = 0644);

// Appends one record and syncs it. The caller adds the newline; one writer per file.
Status append_file_synced(const std::string& path, std::string_view text);

// Renames a finished folder to its published name and syncs the parent. ErrorCode::conflict if `to` exists already.
Status publish_directory(const std::string& from, const std::string& to);

Status make_directories(const std::string& path);
Status remove_tree(const std::string& path);  // absent is fine
Status sync_tree(const std::string& path);    // fsync of every file and folder below, and of `path`
bool file_exists(const std::string& path);    // anything of that name
bool is_directory(const std::string& path);
Result<std::uint64_t> file_size(const std::string& path);
// Names (not paths) in a folder, sorted. Missing folder: ErrorCode::not_found.
Result<std::vector<std::string>> list_directory(const std::string& path);
// Paths of regular files below `path`, relative to it, sorted.
Result<std::vector<std::string>> list_tree(const std::string& path);
// Bytes that an unprivileged writer may still use on the file system of `path`.
Result<std::uint64_t> free_bytes(const std::string& path);

std::string join_path(std::string_view a, std::string_view b);
std::string parent_path(std::string_view path);
std::string file_name(std::string_view path);
// Absolute and without "." and ".."; symbolic links stay as they are.
std::string absolute_path(const std::string& path);

// One owner per descriptor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() { reset(); }
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release() {
    int fd = fd_;
    fd_ = -1;
    return fd;
  }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

// Read-only memory map of a whole file. Empty files give an empty view.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::string_view view() const { return {static_cast<const char*>(data_), size_}; }

 private:
  MappedFile() = default;
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace longhaul
