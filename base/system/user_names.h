// Users and groups as people read them, and by name.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/error/result.h"

namespace longhaul {

// "uid 40001 (ana)"; without the name where the system knows none.
std::string user_text(std::int64_t uid);
std::string group_text(gid_t gid);
// "ana", or "40001" where the system knows no name: for columns of a table.
std::string user_name(std::int64_t uid);
// Of a name or a number. not_found: no such user on this machine.
Result<uid_t> user_id(const std::string& name_or_number);
// not_found: no such group on this machine.
Result<gid_t> group_id(const std::string& name);

}  // namespace longhaul
