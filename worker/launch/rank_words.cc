#include "worker/launch/rank_words.h"

#include "contracts/launcher_variables.h"

namespace longhaul {

std::optional<RankWords> parse_rank_words(const std::vector<std::string>& words) {
  if (words.size() < 7 || words[0] != "rank" || words[1] != "--log-dir" || words[3] != "--beat-dir" || words[5] != "--")
    return std::nullopt;
  return RankWords{words[2], words[4], {words.begin() + 6, words.end()}};
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
