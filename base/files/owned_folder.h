// Folders that this process's user alone may enter, in places that all users share (/dev/shm, a node's disk). Once such
// a folder was made or checked here, names below it are safe: nobody else can make, exchange or read anything in it,
// nor put another folder in its place.
#pragma once

#include <string>

#include "base/error/result.h"
#include "base/files/files.h"
#include "base/files/owned_files.h"

namespace longhaul {

// The folder of this path, made with mode 0700 if it is not there; its parents have to be there. One that is there has
// to be our own and writable for nobody else, and is then closed to readers as well. Refused (invalid_input, with owner
// and mode): a link, another's folder, and a parent in which everybody may rename (writable for all and not sticky).
// Whoever owns the parent is trusted.
Status make_private_folder(const std::string& path);
// The same, of a name that nobody can know before: its path is PARENT/PREFIX<32 hex>.
Result<std::string> make_unique_private_folder(const std::string& parent, const std::string& prefix);
// Is it there, and what make_private_folder() makes? not_found, invalid_input.
Status check_private_folder(const std::string& path);

// The file `relative` below `root`, which may itself be reached by links; no part of `relative` may be one, however the
// parts are exchanged meanwhile. "..", "." and "" as a part are refused.
Result<FileDescriptor> open_file_below(const std::string& root, const std::string& relative, const Ownership& wanted);

}  // namespace longhaul
