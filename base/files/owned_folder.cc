#include "base/files/owned_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/digest/hash.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr int folder_flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

Error folder_error(const std::string& verb, const std::string& path, int error_number) {
  return errno_error(error_number == ENOENT ? ErrorCode::not_found : ErrorCode::io, "cannot " + verb + " " + path,
                     error_number);
}

Result<FileDescriptor> open_folder(int parent, const std::string& name, const std::string& path) {
  FileDescriptor fd(::openat(parent, name.c_str(), folder_flags | O_NOFOLLOW));
  if (fd.valid()) return fd;
  const int error_number = errno;
  struct stat info{};
  if ((error_number == ELOOP || error_number == ENOTDIR) &&
      ::fstatat(parent, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0)
    return make_error(ErrorCode::invalid_input,
                      format("{} is {}: a folder is expected here, no link to one", path, kind_and_owner(info)),
                      "find out who put it there, and remove it");
  return folder_error("open", path, error_number);
}

// Where everybody may rename, a checked folder could be exchanged for another one of its name.
Result<FileDescriptor> open_parent(const std::string& path) {
  const std::string parent = parent_path(path);
  FileDescriptor fd(::open(parent.c_str(), folder_flags));
  if (!fd.valid()) return folder_error("open", parent, errno);
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return folder_error("look at", parent, errno);
  if ((info.st_mode & S_IWOTH) != 0 && (info.st_mode & S_ISVTX) == 0)
    return make_error(ErrorCode::invalid_input,
                      format("{} is {}: everybody may rename what is in it", parent, kind_and_owner(info)),
                      "chmod +t " + shell_quote(parent) + ", or name another folder");
  return fd;
}

// Without slashes at its end, of which the last part would be empty.
std::string plain(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// Our own that others could read is closed; what they could write into may hold something of theirs already.
Status close_to_others(int parent, const std::string& path) {
  LH_TRY(const FileDescriptor fd, open_folder(parent, file_name(path), path));
  LH_CHECK(check_owned_folder(fd.get(), path, Ownership{}));
  if (::fchmod(fd.get(), 0700) != 0) return folder_error("close to others", path, errno);
  return {};
}

}  // namespace

Status make_private_folder(const std::string& path_given) {
  const std::string path = plain(path_given);
  LH_TRY(const FileDescriptor parent, open_parent(path));
  if (::mkdirat(parent.get(), file_name(path).c_str(), 0700) != 0 && errno != EEXIST)
    return folder_error("create folder", path, errno);
  return close_to_others(parent.get(), path);
}

Result<std::string> make_unique_private_folder(const std::string& parent, const std::string& prefix) {
  LH_TRY(const std::string random, random_hex(16));
  const std::string path = join_path(plain(parent), prefix + random);
  LH_TRY(const FileDescriptor opened, open_parent(path));
  // That 128 random bits are taken already is no chance.
  if (::mkdirat(opened.get(), file_name(path).c_str(), 0700) != 0) return folder_error("create folder", path, errno);
  LH_CHECK(close_to_others(opened.get(), path));
  return path;
}

Status check_private_folder(const std::string& path_given) {
  const std::string path = plain(path_given);
  LH_TRY(const FileDescriptor parent, open_parent(path));
  LH_TRY(const FileDescriptor fd, open_folder(parent.get(), file_name(path), path));
  return check_owned_folder(fd.get(), path, private_to_us());
}

Result<FileDescriptor> open_file_below(const std::string& root, const std::string& relative, const Ownership& wanted) {
  FileDescriptor folder(::open(root.c_str(), folder_flags));
  if (!folder.valid()) return folder_error("open", root, errno);
  const std::vector<std::string> parts = split(relative, '/');
  std::string path = root;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].empty() || parts[i] == "." || parts[i] == "..")
      return make_error(ErrorCode::invalid_input, "'" + relative + "' is no path below " + root);
    path = join_path(path, parts[i]);
    if (i + 1 == parts.size()) break;
    LH_TRY(folder, open_folder(folder.get(), parts[i], path));
  }
  return open_owned_file_at(folder.get(), parts.back(), path, wanted);
}

}  // namespace longhaul
