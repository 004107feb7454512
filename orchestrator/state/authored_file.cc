#include "orchestrator/state/authored_file.h"

#include <sys/stat.h>

#include <cerrno>

#include "base/files/owned_files.h"

namespace longhaul {

Result<AuthoredFile> read_with_author(const std::string& path, std::uint64_t size_max) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0)
    return errno_error(errno == ENOENT ? ErrorCode::not_found : ErrorCode::io, "cannot read " + path, errno);
  // Anybody's, but of the one whom we name: the descriptor is asked again.
  const Ownership anybodys{.owners = {info.st_uid}, .forbidden = 0, .one_name = false};
  LH_TRY(std::string text, read_owned_file(path, anybodys, size_max));
  return AuthoredFile{std::move(text), info.st_uid};
}

}  // namespace longhaul
