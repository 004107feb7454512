#include "worker/launch/rank_arguments.h"

#include "contracts/settings/job/launcher_variables.h"

namespace longhaul {

std::optional<RankArguments> parse_rank_arguments(const std::vector<std::string>& arguments) {
  if (arguments.size() < 7 || arguments[0] != "rank" || arguments[1] != "--log-dir" || arguments[3] != "--beat-dir")
    return std::nullopt;
  const bool near_gpu = arguments[5] == "--near-gpu";
  const std::size_t bar = near_gpu ? 6 : 5;
  if (arguments.size() < bar + 2 || arguments[bar] != "--") return std::nullopt;
  return RankArguments{arguments[2],
                       arguments[4],
                       near_gpu,
                       {arguments.begin() + static_cast<std::ptrdiff_t>(bar) + 1, arguments.end()}};
}

std::string launcher_rank(const Variable& variable) {
  for (const char* name : launcher_rank_variables)
    if (std::string rank = variable(name); !rank.empty()) return rank;
  return {};
}

std::string slurm_step(const Variable& variable) {
  const std::string job = variable("SLURM_JOB_ID"), step = variable("SLURM_STEP_ID");
  return variable("LONGHAUL_STEP").empty() || job.empty() || step.empty() ? "" : job + "." + step;
}

}  // namespace longhaul
