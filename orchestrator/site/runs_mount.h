// Whether the file system of the runs shows every host what the others have written: controllers claim epochs by a
// listing, and leads find each other by files. Pure.
#pragma once

#include <string>

#include "base/files/mounts.h"

namespace longhaul {

// "" where it does; else what is wrong with the mount, and what to ask for. NFS alone: its clients keep names and times
// of files for as long as the mount options say (nfs(5): nocto, actimeo, acdirmax, acregmax).
std::string runs_mount_problem(const Mount& mount);

}  // namespace longhaul
