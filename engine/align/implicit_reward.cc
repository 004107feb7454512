#include "engine/align/implicit_reward.h"

#include <algorithm>
#include <cmath>

#include "engine/align/logistic.h"

namespace longhaul {

namespace {
constexpr double largest_exponent = 80;
}

ImplicitReward implicit_reward(const AlignSettings& settings, double log_ratio) {
  const double t = log_ratio, order = settings.divergence_alpha - 1;
  if (settings.divergence == "forward_kl") {
    const double power = std::exp(std::min(-t, largest_exponent));
    return {1 - power, -t > largest_exponent ? 0 : power};
  }
  if (settings.divergence == "js") return {std::log(2.0) - minus_log_sigmoid(t), sigmoid(-t)};
  if (settings.divergence == "alpha" && std::abs(order) >= 1e-6) {
    const double power = std::exp(std::min(order * t, largest_exponent));
    return {(power - 1) / order, order * t > largest_exponent ? 0 : power};
  }
  return {t, 1};
}

RewardDifference reward_difference(const AlignSettings& settings, const PairScores& scores) {
  return {implicit_reward(settings, scores.chosen - scores.chosen_reference),
          implicit_reward(settings, scores.rejected - scores.rejected_reference)};
}

}  // namespace longhaul
