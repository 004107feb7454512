// A socket in the file system, to which only its owner can connect: what a server listens on where a token is not
// wanted.
#pragma once

#include <string>

#include "base/error/result.h"

namespace longhaul {

// Binds and listens at `path`; the descriptor is non-blocking and close-on-exec, the file has mode 0600. Its folder is
// made (0700) where it does not exist, and must be a folder of this user that nobody else may enter: else an error that
// names owner and mode. A socket that a dead server left there is replaced; one that answers is not (`conflict`).
Result<int> listen_on_socket_file(const std::string& path);

}  // namespace longhaul
