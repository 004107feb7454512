#include "engine/infer/http/socket_file.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/files/files.h"
#include "base/files/owned_folder.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

Result<sockaddr_un> socket_file_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path)
    return make_error(ErrorCode::invalid_input,
                      format("{}: a socket's path has 1 to {} bytes", path, sizeof address.sun_path - 1),
                      "choose a shorter one, for example below $XDG_RUNTIME_DIR");
  std::memcpy(address.sun_path, path.c_str(), path.size());
  return address;
}

}  // namespace

Result<int> listen_on_socket_file(const std::string& path) {
  LH_TRY(const sockaddr_un address, socket_file_address(path));
  const std::string folder = parent_path(absolute_path(path));
  // A folder that is there is not closed to others by the way: somebody may have named one that is in use.
  Status is_private = check_private_folder(folder);
  if (!is_private.ok() && is_private.error().code == ErrorCode::not_found) is_private = make_private_folder(folder);
  LH_CHECK(std::move(is_private).with_context("the socket's folder"));
  const auto* where = reinterpret_cast<const sockaddr*>(&address);
  FileDescriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return errno_error(ErrorCode::io, "cannot make a socket", errno);
  struct stat there{};
  if (::lstat(path.c_str(), &there) == 0) {
    if (!S_ISSOCK(there.st_mode))
      return make_error(ErrorCode::conflict, path + " exists and is no socket", "name a file that does not exist");
    const FileDescriptor asks(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (::connect(asks.get(), where, sizeof address) == 0 || errno == EAGAIN)
      return make_error(ErrorCode::conflict, "a server listens on " + path + " already",
                        "stop it, or name another file");
    ::unlink(path.c_str());
  }
  ::fchmod(fd.get(), 0600);  // what bind gives to the file
  if (::bind(fd.get(), where, sizeof address) != 0 || ::listen(fd.get(), 256) != 0)
    return errno_error(ErrorCode::io, "cannot listen on " + path, errno);
  if (::chmod(path.c_str(), 0600) != 0) return errno_error(ErrorCode::io, "mode of " + path, errno);
  return fd.release();
}

}  // namespace longhaul
