// How much better an answer is than the others to its prompt, from their rewards r (one group, n of which count):
//   grpo, scaled    (r - mean) / (std + 1e-4), std with n - 1: Shao et al. 2024, "DeepSeekMath", section 4.1.2; the
//                   small number and the sample deviation are TRL's
//   grpo, centered  r - mean: Liu et al. 2025, "Understanding R1-Zero-Like Training", equation 3 (Dr. GRPO)
//   rloo            r - mean of the others: Ahmadian et al. 2024, "Back to Basics", equation 9
//   reinforce++     r - mean, which normalise_advantages then divides by the deviation over the whole step: Hu et al.
//                   2025, "REINFORCE++", section 3.2, the form with a baseline; its divergence is a term of the loss
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "contracts/settings/training/training.h"

namespace longhaul {

// Rewards that are missing count for nothing and their answers have advantage 0; so has a group in which all rewards
// that count are equal, or fewer than two do.
std::vector<double> group_advantages(const AlignSettings& settings, std::span<const std::optional<double>> rewards);
// All rewards that count are the same: nothing is learnt from such a group.
bool rewards_are_equal(std::span<const std::optional<double>> rewards);

// Sums over the tokens of a step's answers, each of which has its answer's advantage; those of ranks are added.
struct AdvantageSums {
  double tokens = 0, sum = 0, squares = 0;
  void add(double advantage, double answer_tokens) {
    tokens += answer_tokens, sum += answer_tokens * advantage, squares += answer_tokens * advantage * advantage;
  }
};
// (a - mean) / sqrt(variance + 1e-8), the variance with n - 1 as verl whitens; 0 where there are fewer than two tokens.
double normalised_advantage(double advantage, const AdvantageSums& sums);

}  // namespace longhaul
