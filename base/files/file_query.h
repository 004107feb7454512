// Questions to a file system that answer yes, no or error. On a shared file system an error (EIO, ESTALE, EACCES) is
// not absence: whoever would lose or repeat work for a wrong "no" asks here, and not file_exists().
#pragma once

#include <string>

#include "base/error/result.h"

namespace longhaul {

// Anything of that name, a link without target included. Only "there is no such file", also for want of a folder on the
// way, is a no; io: there is no answer.
Result<bool> is_there(const std::string& path);

// For whoever deletes or refuses what is not there: false on doubt.
bool is_surely_absent(const std::string& path);

}  // namespace longhaul
