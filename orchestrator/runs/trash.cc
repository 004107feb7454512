#include "orchestrator/runs/trash.h"

#include <cerrno>
#include <cstdio>

#include "base/digest/hash.h"
#include "base/files/files.h"

namespace longhaul {

Result<bool> put_away(const std::string& path, const std::string& trash) {
  if (!file_exists(path)) return false;
  LH_CHECK(make_directories(trash));
  LH_TRY(const std::string random, random_hex(6));
  if (std::rename(path.c_str(), join_path(trash, random).c_str()) == 0) return true;
  if (errno == ENOENT) return false;
  return errno_error(ErrorCode::io, "cannot put away " + path, errno);
}

}  // namespace longhaul
