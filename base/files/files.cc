#include "base/files/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/files/owned_files.h"

namespace longhaul {
namespace {

namespace fs = std::filesystem;

ErrorCode code_for(int error_number) {
  return error_number == ENOENT ? ErrorCode::not_found : ErrorCode::io;
}

Error path_error(const std::string& verb, const std::string& path, int error_number) {
  return errno_error(code_for(error_number), "cannot " + verb + " " + path, error_number);
}

Status sync_path(const std::string& path, int flags) {
  FileDescriptor fd(::open(path.c_str(), flags | O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return path_error("open", path, errno);
  // Some network file systems refuse fsync on a folder; the rename itself is still ordered there.
  if (::fsync(fd.get()) != 0 && errno != EINVAL && errno != ENOTSUP) return path_error("sync", path, errno);
  return {};
}

}  // namespace

void FileDescriptor::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

Result<std::string> read_file(const std::string& path, std::uint64_t size_max) {
  LH_TRY(const FileDescriptor fd, open_to_read(path));
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return path_error("read", path, errno);
  if (static_cast<std::uint64_t>(info.st_size) > size_max)
    return make_error(ErrorCode::invalid_input, path + " has " + std::to_string(info.st_size) +
                                                    " bytes; the limit here is " + std::to_string(size_max));
  return read_to_end(fd.get(), path, size_max, static_cast<std::size_t>(info.st_size));
}

namespace {

// Written and closed, of a random name beside `path`; removed unless it was given away.
class Beside {
 public:
  static Result<Beside> written(const std::string& path, std::string_view text, unsigned mode, bool synced) {
    LH_TRY(FileBeside created, create_beside(path, mode));
    const FileDescriptor fd = std::move(created.fd);  // closed before any rename: on NFS its text is there only then
    Beside beside(std::move(created.path));
    if (::fstat(fd.get(), &beside.info_) != 0) return path_error("look at", path, errno);
    LH_CHECK(write_to(fd.get(), text, path));
    if (synced && ::fsync(fd.get()) != 0) return path_error("sync", path, errno);
    return beside;
  }
  ~Beside() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  Beside(Beside&& other) noexcept : path_(std::exchange(other.path_, {})), info_(other.info_) {}
  Beside& operator=(Beside&&) = delete;
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;

  Status rename_to(const std::string& path) {
    if (::rename(path_.c_str(), path.c_str()) != 0) return path_error("rename to", path, errno);
    path_.clear();
    return {};
  }
  // 0, or the number of the error of link(2). On NFS the answer to a link that was made can be lost and asked for
  // again, which then finds the name taken: it was ours if the name is that of our file. How many names our file has
  // says nothing, for anybody may have given it another one.
  int link_to(const std::string& path) const {
    if (::link(path_.c_str(), path.c_str()) == 0) return 0;
    const int error_number = errno;
    struct stat there{};
    const bool made = error_number == EEXIST && ::lstat(path.c_str(), &there) == 0 && info_.st_dev == there.st_dev &&
                      info_.st_ino == there.st_ino;
    return made ? 0 : error_number;
  }

 private:
  explicit Beside(std::string path) : path_(std::move(path)) {}
  std::string path_;
  struct stat info_{};
};

Status write_beside_and_rename(const std::string& path, std::string_view text, unsigned mode, bool synced) {
  LH_TRY(Beside beside, Beside::written(path, text, mode, synced));
  LH_CHECK(beside.rename_to(path));
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
  {
    LH_TRY(const Beside beside, Beside::written(path, text, mode, true));
    const int error_number = beside.link_to(path);
    if (error_number == EEXIST) return make_error(ErrorCode::conflict, path + " exists already");
    if (error_number != 0) return path_error("create", path, error_number);
  }
  return sync_path(parent_path(path), O_DIRECTORY);
}

Status append_file_synced(const std::string& path, std::string_view text) {
  LH_TRY(const FileDescriptor fd, open_to_append(path));
  LH_CHECK(write_to(fd.get(), text, path));
  if (::fsync(fd.get()) != 0) return path_error("sync", path, errno);
  return {};
}

Status publish_directory(const std::string& from, const std::string& to) {
  const auto taken = [&to] { return make_error(ErrorCode::conflict, to + " is published already"); };
  // Plain rename(2) replaces an empty folder silently; where the file system cannot refuse that itself, look
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
  errno = 0;  // half a list is no list: readdir(3) distinguishes an error from the end by errno alone
  while (const dirent* entry = ::readdir(dir.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
    errno = 0;
  }
  if (errno != 0) return path_error("list", path, errno);
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
  LH_TRY(const FileDescriptor fd, open_to_read(path));
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
