#include "base/files/file_query.h"

#include <sys/stat.h>

#include <cerrno>

namespace longhaul {

Result<bool> is_there(const std::string& path) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  return errno_error(ErrorCode::io, "cannot know whether there is " + path, errno);
}

bool is_surely_absent(const std::string& path) {
  const auto there = is_there(path);
  return there.ok() && !*there;
}

}  // namespace longhaul
