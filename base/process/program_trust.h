// Who could exchange the programs and libraries that are found by name: every folder of PATH is as trusted as the one
// who may write it. For `longhaul doctor`.
#pragma once

#include <string>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

// What is wrong with a list of folders as in PATH: "." and other relative ones (empty too), folders that everybody or a
// group may write, and those of a user who is neither root nor the caller. Folders that do not exist are fine.
std::vector<std::string> search_path_problems(const std::string& folders);

// Where PATH has the program; not_found.
Result<std::string> find_program(const std::string& name, const std::string& folders);

// "owner root, mode 0755", and "; OTHERS MAY WRITE IT" where that is so; of the file behind a link. "not there".
std::string owner_text(const std::string& path);

}  // namespace longhaul
