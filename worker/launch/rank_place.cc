#include "worker/launch/rank_place.h"

#include "worker/launch/near_gpu.h"

namespace longhaul {

std::vector<std::pair<std::string, std::string>> rank_place(const Variable& variable) {
  std::vector<std::pair<std::string, std::string>> place;
  if (std::string rank = launcher_rank(variable); !rank.empty()) place.emplace_back("RANK", std::move(rank));
  if (const LocalRank local = local_rank(variable); local.ranks > 0) {
    place.emplace_back("LOCAL_RANK", std::to_string(local.rank));
    place.emplace_back("LOCAL_WORLD_SIZE", std::to_string(local.ranks));
  }
  // Below mpirun it is the number of the daemon's node.
  const bool by_srun = variable("OMPI_COMM_WORLD_RANK").empty() && !variable("SLURM_PROCID").empty();
  if (std::string node = variable("SLURM_NODEID"); by_srun && !node.empty())
    place.emplace_back("NODE_RANK", std::move(node));
  return place;
}

}  // namespace longhaul
