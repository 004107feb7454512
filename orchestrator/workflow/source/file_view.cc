#include "orchestrator/workflow/source/file_view.h"

#include <glob.h>
#include <unistd.h>

#include <cerrno>

#include "base/files/files.h"

namespace longhaul {

Result<std::string> SystemFileView::read(const std::string& path) const {
  return read_file(path, 1 << 24);
}

Result<std::vector<std::string>> SystemFileView::expand(const std::string& pattern) const {
  std::vector<std::string> paths;
  if (pattern.find_first_of("*?[") == std::string::npos || file_exists(pattern)) {
    paths.push_back(absolute_path(pattern));
  } else {
    glob_t found{};
    const int rc = ::glob(pattern.c_str(), 0, nullptr, &found);
    for (std::size_t i = 0; i < found.gl_pathc; ++i) paths.emplace_back(found.gl_pathv[i]);
    ::globfree(&found);
    if (rc == GLOB_NOMATCH || (rc == 0 && paths.empty()))
      return make_error(ErrorCode::not_found, "no file matches " + pattern);
    if (rc != 0) return make_error(ErrorCode::io, "cannot list " + pattern);
  }
  for (const std::string& path : paths) {
    if (!file_exists(path)) return make_error(ErrorCode::not_found, path + " does not exist");
    if (::access(path.c_str(), is_directory(path) ? R_OK | X_OK : R_OK) != 0)
      return errno_error(ErrorCode::io, path + " cannot be read", errno);
  }
  return paths;
}

bool SystemFileView::executable(const std::string& path) const {
  return ::access(path.c_str(), X_OK) == 0;
}

}  // namespace longhaul
