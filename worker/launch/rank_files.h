// Files of one rank below the folder of its launch, or of its step.
#pragma once

#include <string>

namespace longhaul {

std::string rank_log_path(const std::string& launch_dir, int rank);
std::string slurm_step_path(const std::string& step_folder);  // "1234.5", of the step in Slurm

}  // namespace longhaul
