#include "base/group_access.h"

#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <vector>

#include "base/files.h"

namespace longhaul {
namespace {

Status give(const std::string& path, gid_t group) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0) return errno_error(ErrorCode::io, "cannot read " + path, errno);
  if (S_ISLNK(info.st_mode)) return {};
  // A hard link to a program of somebody else's installation stays as it is.
  if (S_ISREG(info.st_mode) && info.st_nlink > 1) return {};
  if (::lchown(path.c_str(), static_cast<uid_t>(-1), group) != 0)
    return errno_error(ErrorCode::io, "cannot give " + path + " to the group", errno);
  const mode_t run = info.st_mode & S_IXUSR ? S_IXGRP : 0;
  const mode_t more = S_ISDIR(info.st_mode) ? (S_ISGID | S_IRWXG) : (S_IRGRP | run);
  if (::chmod(path.c_str(), (info.st_mode & 07777) | more) != 0)
    return errno_error(ErrorCode::io, "cannot open " + path + " for the group", errno);
  return {};
}

Result<gid_t> group_id(const std::string& name) {
  std::vector<char> buffer(1 << 16);
  group entry{};
  group* found = nullptr;
  if (::getgrnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found) != 0 || !found)
    return make_error(ErrorCode::not_found, "there is no group '" + name + "' here", "see the command `groups`");
  return entry.gr_gid;
}

}  // namespace

Status share_with_group(const std::string& path, const std::string& group) {
  LH_TRY(const gid_t id, group_id(group));
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error))
    LH_CHECK(give(entry->path().string(), id));
  if (error) return make_error(ErrorCode::io, "cannot walk " + path + ": " + error.message());
  return give(path, id);
}

Status make_shared_folder(const std::string& path, const std::string& group) {
  LH_TRY(const gid_t id, group_id(group));
  if (!file_exists(path)) {
    LH_CHECK(make_directories(path));
    return give(path, id);
  }
  struct stat info{};
  const bool ours = ::stat(path.c_str(), &info) == 0 && info.st_uid == ::geteuid();
  return ours ? give(path, id) : Status();  // somebody else's folder is as they want it
}

void keep_group_access(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return;
  if ((info.st_mode & (S_ISGID | S_IWGRP)) != (S_ISGID | S_IWGRP)) return;
  const mode_t mask = ::umask(0);
  ::umask(mask & ~static_cast<mode_t>(S_IRWXG));
}

}  // namespace longhaul
