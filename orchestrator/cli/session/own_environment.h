// What this process was started with, to be kept for the jobs of a run.
#pragma once

#include <string>
#include <vector>

namespace longhaul {

// As state/submit_environment.h wants it.
std::vector<std::string> own_environment_for_jobs();

}  // namespace longhaul
