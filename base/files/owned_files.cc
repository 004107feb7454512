#include "base/files/owned_files.h"

#include <pwd.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "base/digest/hash.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::size_t secret_bytes_max = 4096;
constexpr int tries_of_a_name = 100;
constexpr mode_t mode_bits = 07777;

Error file_error(const std::string& verb, const std::string& path, int error_number) {
  return errno_error(error_number == ENOENT ? ErrorCode::not_found : ErrorCode::io, "cannot " + verb + " " + path,
                     error_number);
}

const char* kind_of(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG: return "a file";
    case S_IFDIR: return "a folder";
    case S_IFLNK: return "a link";
    case S_IFIFO: return "a FIFO";
    case S_IFSOCK: return "a socket";
    default: return "a device";
  }
}

std::string user_text(uid_t uid) {
  char buffer[4096];
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(uid, &entry, buffer, sizeof buffer, &found) != 0 || !found) return format("uid {}", uid);
  return format("uid {} ({})", uid, found->pw_name);
}

Error refusal(const std::string& path, const struct stat& info, const std::string& why, std::string hint) {
  return make_error(ErrorCode::invalid_input, format("{} is {}: {}", path, kind_and_owner(info), why), std::move(hint));
}

// Of regular files and folders, once their kind is right.
Status check_owner(const struct stat& info, const std::string& path, const Ownership& wanted) {
  const bool ours = wanted.owners.empty();
  const bool right = ours ? info.st_uid == ::geteuid()
                          : std::find(wanted.owners.begin(), wanted.owners.end(), info.st_uid) != wanted.owners.end();
  if (!right)
    return refusal(path, info, "it is not of " + user_text(ours ? ::geteuid() : wanted.owners.front()),
                   "find out who put it there, and remove it or name another place");
  if (const mode_t open = info.st_mode & wanted.forbidden; open != 0) {
    const bool written = (open & 022) != 0;
    return refusal(path, info,
                   written ? "others than its owner may have written it" : "others than its owner may read it",
                   format("chmod {:o} {}{}", info.st_mode & 07777 & ~wanted.forbidden, shell_quote(path),
                          written ? ", once you know what is in it" : ""));
  }
  return {};
}

// Between fork and exec as well.
bool is_own_descriptor(const char* path) {
  return std::strncmp(path, "/proc/self/fd/", 14) == 0 || std::strncmp(path, "/dev/fd/", 8) == 0 ||
         std::strcmp(path, "/dev/stdin") == 0 || std::strcmp(path, "/dev/stdout") == 0 ||
         std::strcmp(path, "/dev/stderr") == 0;
}
bool is_null_device(const struct stat& info) {
  return S_ISCHR(info.st_mode) && info.st_rdev == makedev(1, 3);
}

// May anybody but the owner of the folder of `path` give a name in it?
bool others_may_name(const char* path) {
  char folder[PATH_MAX];
  const char* const slash = std::strrchr(path, '/');
  const std::size_t bytes = slash ? static_cast<std::size_t>(slash - path) : 0;
  if (bytes >= sizeof folder) return true;
  std::memcpy(folder, path, bytes);
  folder[bytes] = 0;
  struct stat info{};
  return ::stat(bytes > 0 ? folder
                : slash   ? "/"
                          : ".",
                &info) != 0 ||
         (info.st_mode & 022) != 0 || (info.st_uid != ::geteuid() && info.st_uid != 0);
}

Result<FileDescriptor> open_without_links(int folder, const std::string& name, const std::string& path, int flags,
                                          mode_t mode = 0) {
  FileDescriptor fd(::openat(folder, name.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, mode));
  if (fd.valid()) return fd;
  const int error_number = errno;
  struct stat info{};
  // What it is, of what was refused for being no plain file; a FIFO without a reader and a socket say ENXIO.
  if ((error_number == ELOOP || error_number == ENXIO || error_number == EISDIR) &&
      ::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0)
    return refusal(path, info, "a regular file is expected here, no link to one", "remove it");
  return file_error("open", path, error_number);
}

Status check_regular(int fd, const std::string& path, struct stat& info) {
  if (::fstat(fd, &info) != 0) return file_error("look at", path, errno);
  if (!S_ISREG(info.st_mode)) return refusal(path, info, "a regular file is expected here", "remove it");
  return {};
}

}  // namespace

Ownership private_to_us() {
  Ownership ownership;
  ownership.forbidden = 077;
  return ownership;
}

std::string kind_and_owner(const struct stat& info) {
  return format("{} of {}, mode {:04o}", kind_of(info.st_mode), user_text(info.st_uid), info.st_mode & mode_bits);
}

std::string kind_and_owner(const std::string& path) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0 ? kind_and_owner(info) : "not there";
}

Status check_owned_file(int fd, const std::string& path, const Ownership& wanted) {
  struct stat info{};
  LH_CHECK(check_regular(fd, path, info));
  LH_CHECK(check_owner(info, path, wanted));
  if (wanted.one_name && info.st_nlink > 1)
    return refusal(path, info, format("it has {} names (hard links)", info.st_nlink),
                   "remove this one, or copy the file");
  return {};
}

Status check_owned_folder(int fd, const std::string& path, const Ownership& wanted) {
  struct stat info{};
  if (::fstat(fd, &info) != 0) return file_error("look at", path, errno);
  if (!S_ISDIR(info.st_mode)) return refusal(path, info, "a folder is expected here", "remove it");
  return check_owner(info, path, wanted);
}

Result<FileDescriptor> open_owned_file(const std::string& path, const Ownership& wanted, int flags) {
  LH_TRY(FileDescriptor fd, open_without_links(AT_FDCWD, path, path, flags & ~O_CREAT));
  LH_CHECK(check_owned_file(fd.get(), path, wanted));
  return fd;
}

Result<FileDescriptor> open_owned_file_at(int folder, const std::string& name, const std::string& path,
                                          const Ownership& wanted) {
  LH_TRY(FileDescriptor fd, open_without_links(folder, name, path, O_RDONLY));
  LH_CHECK(check_owned_file(fd.get(), path, wanted));
  return fd;
}

Result<FileDescriptor> open_or_create_owned_file(const std::string& path, const Ownership& wanted, mode_t mode) {
  LH_TRY(FileDescriptor fd, open_without_links(AT_FDCWD, path, path, O_RDWR | O_CREAT, mode));
  LH_CHECK(check_owned_file(fd.get(), path, wanted));
  return fd;
}

Result<std::string> read_owned_file(const std::string& path, const Ownership& wanted, std::uint64_t size_max) {
  LH_TRY(const FileDescriptor fd, open_owned_file(path, wanted));
  return read_to_end(fd.get(), path, size_max);
}

Result<std::string> read_secret_file(const std::string& path, const std::string& what) {
  // A second name is no harm to what is only read; who may read the file is asked of the file.
  Ownership wanted = private_to_us();
  wanted.one_name = false;
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));  // a link to it is the owner's affair
  if (!fd.valid()) return file_error("read", path, errno).with_context(what);
  if (const Status right = check_owned_file(fd.get(), path, wanted); !right.ok())
    return right.error().with_context(what);
  return read_to_end(fd.get(), path, secret_bytes_max).with_context(what);
}

Result<FileDescriptor> open_to_read(const std::string& path) {
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd.valid()) return file_error("read", path, errno);
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return file_error("read", path, errno);
  if (S_ISREG(info.st_mode) || is_null_device(info)) return fd;
  if (S_ISDIR(info.st_mode)) return make_error(ErrorCode::invalid_input, "cannot read " + path + ": it is a directory");
  if (!is_own_descriptor(path.c_str()))
    return refusal(path, info, "a regular file is expected here", "name a file; a pipe only as /dev/stdin or <(...)");
  const int flags = ::fcntl(fd.get(), F_GETFL);  // who gives a pipe is waited for
  if (flags < 0 || ::fcntl(fd.get(), F_SETFL, flags & ~O_NONBLOCK) != 0) return file_error("read", path, errno);
  return fd;
}

Result<FileDescriptor> create_new_file(const std::string& path, mode_t mode) {
  FileDescriptor fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
  if (!fd.valid()) {
    if (errno == EEXIST) return make_error(ErrorCode::conflict, path + " exists already");
    return file_error("create", path, errno);
  }
  if ((mode & 077) == 0 && ::fchmod(fd.get(), mode) != 0) {
    const int error_number = errno;
    ::unlink(path.c_str());
    return file_error("close to others", path, error_number);
  }
  return fd;
}

Result<FileBeside> create_beside(const std::string& path, mode_t mode) {
  for (int tries = 0;; ++tries) {
    LH_TRY(const std::string random, random_hex(8));
    FileBeside beside;
    beside.path = path + ".tmp." + random;
    auto created = create_new_file(beside.path, mode);
    if (created.ok()) {
      beside.fd = std::move(*created);
      return beside;
    }
    if (created.error().code != ErrorCode::conflict || tries == tries_of_a_name) return std::move(created).error();
  }
}

int append_descriptor(const char* path, mode_t mode) noexcept {
  constexpr int flags = O_WRONLY | O_APPEND | O_CLOEXEC;
  if (is_own_descriptor(path)) return ::open(path, flags);
  const int fd = ::open(path, flags | O_CREAT | O_NOFOLLOW | O_NONBLOCK, mode);
  if (fd < 0) return -1;
  struct stat info{};
  int refused = 0;
  if (::fstat(fd, &info) != 0) {
    refused = errno;
  } else if (!S_ISREG(info.st_mode)) {
    refused = is_null_device(info) ? 0 : ENXIO;
  } else if (info.st_nlink > 1 && others_may_name(path)) {
    refused = EMLINK;
  }
  if (refused == 0) return fd;
  ::close(fd);
  errno = refused;
  return -1;
}

Result<FileDescriptor> open_to_append(const std::string& path, mode_t mode) {
  FileDescriptor fd(append_descriptor(path.c_str(), mode));
  if (fd.valid()) return fd;
  const int error_number = errno;
  struct stat info{};
  if (const bool odd = error_number == ELOOP || error_number == EMLINK || error_number == ENXIO;
      odd && ::lstat(path.c_str(), &info) == 0)
    return refusal(path, info,
                   error_number == EMLINK
                       ? format("it has {} names (hard links) in a folder where others may write", info.st_nlink)
                       : "a regular file is expected here, no link to one",
                   "find out who put it there, and remove it");
  return file_error("append to", path, error_number);
}

Status touch_file(const std::string& path, mode_t mode) {
  LH_TRY(const FileDescriptor fd, open_to_append(path, mode));
  if (::futimens(fd.get(), nullptr) != 0) return file_error("set the time of", path, errno);
  return {};
}

Result<std::string> read_to_end(int fd, const std::string& path, std::uint64_t size_max, std::size_t expected) {
  std::string text;
  text.reserve(expected);
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return file_error("read", path, errno);
    if (n == 0) return text;
    text.append(buffer, static_cast<std::size_t>(n));
    if (text.size() > size_max)
      return make_error(ErrorCode::invalid_input, path + " is larger than " + std::to_string(size_max) + " bytes");
  }
}

Status write_to(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      return file_error("write", path, errno);
    }
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

}  // namespace longhaul
