// Folders that a group shares: setgid and writable for the group. What a program makes below one must stay reachable
// for the others, whatever the umask of the person who runs it.
#pragma once

#include <string>

#include "base/result.h"

namespace longhaul {

// Gives everything below `path`, and `path`, to the group, which may read all of it and write into its folders
// (setgid, so what is made there later belongs to the group). not_found: no such group; io: not one's own group.
Status share_with_group(const std::string& path, const std::string& group);

// Only the folder itself, made if it is not there.
Status make_shared_folder(const std::string& path, const std::string& group);

// If `path` is shared so, this process no longer takes rights from the group for what it makes (umask). Before threads.
void keep_group_access(const std::string& path);

}  // namespace longhaul
