// The shell lines of a job's script before its first command: modules and variables, each under a comment that says
// where it comes from.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/job/request/job_sources.h"

namespace longhaul {

// Empty where neither site nor stage asks for any. Names that no script can hold are problems.
std::vector<std::string> prologue_of(const JobSources& from);

}  // namespace longhaul
