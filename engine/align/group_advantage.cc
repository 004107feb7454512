#include "engine/align/group_advantage.h"

#include <algorithm>
#include <cmath>

namespace longhaul {

bool rewards_are_equal(std::span<const std::optional<double>> rewards) {
  const std::optional<double>* first = nullptr;
  for (const std::optional<double>& reward : rewards) {
    if (!reward) continue;
    if (first == nullptr) first = &reward;
    if (**first != *reward) return false;
  }
  return true;
}

std::vector<double> group_advantages(const AlignSettings& settings, std::span<const std::optional<double>> rewards) {
  std::vector<double> advantages(rewards.size(), 0.0);
  if (rewards_are_equal(rewards)) return advantages;
  double sum = 0, squares = 0, n = 0;
  for (const std::optional<double>& reward : rewards)
    if (reward) sum += *reward, n += 1;
  const double mean = sum / n;
  for (const std::optional<double>& reward : rewards)
    if (reward) squares += (*reward - mean) * (*reward - mean);
  const double deviation = std::sqrt(squares / (n - 1));
  const bool scaled = settings.method == "grpo" && settings.rollout.advantage == "scaled";
  for (std::size_t i = 0; i < rewards.size(); ++i) {
    if (!rewards[i]) continue;
    const double reward = *rewards[i];
    advantages[i] = settings.method == "rloo" ? reward - (sum - reward) / (n - 1) : reward - mean;
    if (scaled) advantages[i] /= deviation + 1e-4;
  }
  return advantages;
}

double normalised_advantage(double advantage, const AdvantageSums& sums) {
  if (sums.tokens < 2) return 0;
  const double mean = sums.sum / sums.tokens;
  const double variance = std::max(0.0, (sums.squares - sums.tokens * mean * mean) / (sums.tokens - 1));
  return (advantage - mean) / std::sqrt(variance + 1e-8);
}

}  // namespace longhaul
