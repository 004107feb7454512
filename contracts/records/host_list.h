// The nodes of a job in Slurm's short notation, one by one.
#pragma once

#include <string>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

// "n[1-2,07],x3" is n1 n2 n07 x3; several brackets in a name are multiplied out. invalid_input: another notation, or
// more hosts than any job has.
Result<std::vector<std::string>> expand_host_list(const std::string& text);

}  // namespace longhaul
