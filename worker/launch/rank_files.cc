#include "worker/launch/rank_files.h"

#include "base/files/files.h"

namespace longhaul {

std::string rank_log_path(const std::string& launch_dir, int rank) {
  return join_path(launch_dir, "rank-" + std::to_string(rank) + ".log");
}

std::string slurm_step_path(const std::string& step_folder) {
  return join_path(step_folder, "slurm-step");
}

}  // namespace longhaul
