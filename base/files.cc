#include "base/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>

namespace longhaul {
namespace {

namespace fs = std::filesystem;

ErrorCode code_for(int error_number) {
  return error_number == ENOENT ? ErrorCode::not_found : ErrorCode::io;
}

Error path_error(const std::string& verb, const std::string& path, int error_number) {
  return errno_error(code_for(error_number), "cannot " + verb + " " + path, error_number);
}

std::string unique_neighbour(const std::string& path) {
  static std::atomic<unsigned> counter{0};
  return path + ".tmp." + std::to_string(::getpid()) + "." + std::to_string(counter.fetch_add(1));
}

Status write_all(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      return path_error("write", path, errno);
    }
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

Status sync_path(const std::string& path, int flags) {
  FileDescriptor fd(::open(path.c_str(), flags | O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return path_error("open", path, errno);
  // Some network file systems refuse fsync on a folder; the rename itself is still ordered there.
  if (::fsync(fd.get()) != 0 && errno != EINVAL && errno != ENOTSUP) return path_error("sync", path, errno);
  return {};
}

Status write_new(const std::string& path, std::string_view text, unsigned mode, bool synced) {
  FileDescriptor fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode));
  if (!fd.valid()) return path_error("create", path, errno);
  LH_CHECK(write_all(fd.get(), text, path));
  if (synced && ::fsync(fd.get()) != 0) return path_error("sync", path, errno);
  return {};
}

Status write_synced(const std::string& path, std::string_view text, unsigned mode) {
  return write_new(path, text, mode, true);
}

}  // namespace

void FileDescriptor::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

Result<std::string> read_file(const std::string& path, std::uint64_t size_max) {
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return path_error("read", path, errno);
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return path_error("read", path, errno);
  if (S_ISDIR(info.st_mode)) return make_error(ErrorCode::invalid_input, "cannot read " + path + ": it is a directory");
  if (static_cast<std::uint64_t>(info.st_size) > size_max)
    return make_error(ErrorCode::invalid_input, path + " has " + std::to_string(info.st_size) +
                                                    " bytes; the limit here is " + std::to_string(size_max));
  std::string text;
  text.reserve(static_cast<std::size_t>(info.st_size));
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n < 0) {
      if (errno == EINTR) continue;
      return path_error("read", path, errno);
    }
    if (n == 0) return text;
    text.append(buffer, static_cast<std::size_t>(n));
    if (text.size() > size_max)
      return make_error(ErrorCode::invalid_input, path + " is larger than " + std::to_string(size_max) + " bytes");
  }
}

namespace {

Status write_beside_and_rename(const std::string& path, std::string_view text, unsigned mode, bool synced) {
  const std::string beside = unique_neighbour(path);
  Status written = write_new(beside, text, mode, synced);
  if (!written.ok()) {
    ::unlink(beside.c_str());
    return written;
  }
  if (::rename(beside.c_str(), path.c_str()) != 0) {
    const int error_number = errno;
    ::unlink(beside.c_str());
    return path_error("rename to", path, error_number);
  }
  return synced ? sync_path(parent_path(path), O_DIRECTORY) : Status{};
}

}  // namespace

Status write_file_atomic(const std::string& path, std::string_view text, unsigned mode) {
  return write_beside_and_rename(path, text, mode, true);
}
Status write_file_renamed(const std::string& path, std::string_view text, unsigned mode) {
  return write_beside_and_rename(path, text, mode, false);
}

Status create_file_exclusive(const std::string& path, std::string_view text, unsigned mode) {
  const std::string beside = unique_neighbour(path);
  Status written = write_synced(beside, text, mode);
  int error_number = 0;
  if (written.ok() && ::link(beside.c_str(), path.c_str()) != 0) {
    error_number = errno;
    // On NFS the answer to a link that was made can be lost and asked for again: two names say that it was ours.
    struct stat info{};
    if (error_number == EEXIST && ::stat(beside.c_str(), &info) == 0 && info.st_nlink == 2) error_number = 0;
  }
  ::unlink(beside.c_str());
  LH_CHECK(std::move(written));
  if (error_number == EEXIST) return make_error(ErrorCode::conflict, path + " exists already");
  if (error_number != 0) return path_error("create", path, error_number);
  return sync_path(parent_path(path), O_DIRECTORY);
}

Status append_file_synced(const std::string& path, std::string_view text) {
  FileDescriptor fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!fd.valid()) return path_error("append to", path, errno);
  LH_CHECK(write_all(fd.get(), text, path));
  if (::fsync(fd.get()) != 0) return path_error("sync", path, errno);
  return {};
}

Status publish_directory(const std::string& from, const std::string& to) {
  const auto taken = [&to] { return make_error(ErrorCode::conflict, to + " is published already"); };
  // Plain rename(2) replaces an empty folder without a word; where the file system cannot refuse that itself, look
  // first.
#ifdef RENAME_NOREPLACE
  int done = ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE);
#else
  int done = -1;
  errno = ENOSYS;
#endif
  if (done != 0 && (errno == EINVAL || errno == ENOSYS)) {
    if (file_exists(to)) return taken();
    done = ::rename(from.c_str(), to.c_str());
  }
  if (done != 0) {
    const int error_number = errno;
    if (error_number == EEXIST || error_number == ENOTEMPTY || error_number == ENOTDIR) return taken();
    return path_error("publish " + from + " as", to, error_number);
  }
  return sync_path(parent_path(to), O_DIRECTORY);
}

Status make_directories(const std::string& path) {
  std::error_code code;
  fs::create_directories(path, code);
  if (code) return path_error("create folder", path, code.value());
  return {};
}

Status remove_tree(const std::string& path) {
  std::error_code code;
  fs::remove_all(path, code);
  if (code) return path_error("remove", path, code.value());
  return {};
}

Status sync_tree(const std::string& path) {
  std::error_code code;
  fs::recursive_directory_iterator it(path, code);
  for (const fs::recursive_directory_iterator end; !code && it != end; it.increment(code)) {
    const fs::file_status status = it->symlink_status(code);
    if (code) break;
    if (fs::is_regular_file(status)) LH_CHECK(sync_path(it->path().string(), 0));
    if (fs::is_directory(status)) LH_CHECK(sync_path(it->path().string(), O_DIRECTORY));
  }
  if (code) return path_error("list", path, code.value());
  return sync_path(path, O_DIRECTORY);
}

bool file_exists(const std::string& path) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0;
}

bool is_directory(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

Result<std::uint64_t> file_size(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return path_error("stat", path, errno);
  return static_cast<std::uint64_t>(info.st_size);
}

Result<std::vector<std::string>> list_directory(const std::string& path) {
  struct Close {
    void operator()(DIR* dir) const noexcept { ::closedir(dir); }
  };
  std::unique_ptr<DIR, Close> dir(::opendir(path.c_str()));
  if (!dir) return path_error("list", path, errno);
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(dir.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::vector<std::string>> list_tree(const std::string& path) {
  std::error_code code;
  std::vector<std::string> files;
  fs::recursive_directory_iterator it(path, fs::directory_options::skip_permission_denied, code);
  if (code) return path_error("list", path, code.value());
  for (const fs::recursive_directory_iterator end; it != end; it.increment(code)) {
    if (code) return path_error("list", path, code.value());
    if (it->is_regular_file(code)) files.push_back(it->path().lexically_relative(path).string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

Result<std::uint64_t> free_bytes(const std::string& path) {
  struct statvfs info{};
  if (::statvfs(path.c_str(), &info) != 0) return path_error("read the free space of", path, errno);
  return static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
}

std::string join_path(std::string_view a, std::string_view b) {
  if (a.empty() || (!b.empty() && b.front() == '/')) return std::string(b);
  if (b.empty()) return std::string(a);
  std::string joined(a);
  if (joined.back() != '/') joined += '/';
  return joined.append(b);
}

std::string parent_path(std::string_view path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

std::string file_name(std::string_view path) {
  return fs::path(path).filename().string();
}

std::string absolute_path(const std::string& path) {
  std::error_code code;
  const fs::path absolute = fs::absolute(path, code);
  return (code ? fs::path(path) : absolute).lexically_normal().string();
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return path_error("read", path, errno);
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return path_error("read", path, errno);
  if (!S_ISREG(info.st_mode)) return make_error(ErrorCode::invalid_input, path + " is not a regular file");
  MappedFile file;
  if (info.st_size == 0) return file;
  file.size_ = static_cast<std::size_t>(info.st_size);
  file.data_ = ::mmap(nullptr, file.size_, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (file.data_ == MAP_FAILED) {
    file.data_ = nullptr;
    return path_error("map", path, errno);
  }
  return file;
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(data_, size_);
}
MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace longhaul
