#include "engine/infer/socket_file.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/files.h"
#include "base/text.h"

namespace longhaul {
namespace {

Status require_private_folder(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) == 0) return {};
  if (errno != EEXIST) return errno_error(ErrorCode::io, "cannot make the socket's folder " + folder, errno);
  struct stat info{};
  if (::lstat(folder.c_str(), &info) != 0) return errno_error(ErrorCode::io, "the socket's folder " + folder, errno);
  if (S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() && (info.st_mode & 077) == 0) return {};
  return make_error(ErrorCode::invalid_input,
                    format("{}, the socket's folder, is not only yours: {}, owner {}, mode {:04o}", folder,
                           S_ISDIR(info.st_mode) ? "a folder" : "no folder", info.st_uid, info.st_mode & 07777),
                    "name a folder that does not exist yet, or one of your own with mode 0700");
}

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
  const std::string folder = parent_path(path);
  LH_CHECK(require_private_folder(folder.empty() ? "." : folder));
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
