#include "worker/launch/rank_words.h"

#include "contracts/settings/job/launcher_variables.h"

namespace longhaul {

std::optional<RankWords> parse_rank_words(const std::vector<std::string>& words) {
  if (words.size() < 7 || words[0] != "rank" || words[1] != "--log-dir" || words[3] != "--beat-dir")
    return std::nullopt;
  const bool near_gpu = words[5] == "--near-gpu";
  const std::size_t bar = near_gpu ? 6 : 5;
  if (words.size() < bar + 2 || words[bar] != "--") return std::nullopt;
  return RankWords{words[2], words[4], near_gpu, {words.begin() + static_cast<std::ptrdiff_t>(bar) + 1, words.end()}};
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
