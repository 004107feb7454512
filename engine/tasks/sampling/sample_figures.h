// What a sampling reports (contracts/figures): sums over groups, which add up over blocks and ranks.
#pragma once

#include <vector>

#include "engine/tasks/common/task_run.h"
#include "engine/tasks/sampling/kept_rows.h"

namespace longhaul {

struct SampleSums {
  double groups = 0, answers = 0, tokens = 0, cut = 0, faults = 0;
  double rewards = 0, reward_squares = 0, right = 0;  // right: a reward of 1 or more
  double judged_groups = 0, best_rewards = 0;         // groups with an answer that has a reward, and the best of each
  double right_groups = 0, equal_groups = 0;          // with a right answer; whose rewards are all equal
  double kept_groups = 0, kept_rows = 0;
  double comparisons = 0, order_flips = 0, letters = 0;  // of a judge

  void count(const SampledGroup& group, const KeptRows& kept);
  void add(const SampleSums& other);
};

// `too_long`: prompts that were left out.
std::vector<Figure> sample_figures(const SampleSettings& settings, const SampleSums& sums, std::int64_t too_long);

}  // namespace longhaul
