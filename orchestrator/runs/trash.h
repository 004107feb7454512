// How a controller deletes folders that somebody may read: by a rename within the file system, so that nobody ever sees
// half of one, and then away. What a killed one has left in the trash, the next one removes.
#pragma once

#include <string>

#include "base/error/result.h"

namespace longhaul {

inline constexpr const char* trash_folder_name = ".trash";  // of a run

// Moves `path` into the folder `trash`, which is made if need be, under a name of its own. false: it is not there.
Result<bool> put_away(const std::string& path, const std::string& trash);

}  // namespace longhaul
