#include "engine/align/critic/token_reward.h"

#include <algorithm>
#include <cmath>

namespace longhaul {

double divergence_estimate(std::string_view kind, double log_ratio) {
  constexpr double log_ratio_bound = 20, estimate_bound = 10;
  if (kind == "k2") return log_ratio * log_ratio / 2;
  if (kind == "k1") return log_ratio;
  const double held = std::clamp(log_ratio, -log_ratio_bound, log_ratio_bound);
  return std::min(std::exp(-held) + held - 1, estimate_bound);
}

std::vector<double> token_rewards(const PpoSettings& settings, double beta, std::span<const double> drawn,
                                  std::span<const double> reference, double reward, double* divergence) {
  std::vector<double> rewards(drawn.size(), 0.0);
  if (!reference.empty())
    for (std::size_t t = 0; t < drawn.size(); ++t) {
      const double estimate = divergence_estimate(settings.kl, drawn[t] - reference[t]);
      rewards[t] = -beta * estimate;
      if (divergence) *divergence += estimate;
    }
  if (!rewards.empty()) rewards.back() += reward;
  return rewards;
}

double adapted_beta(const PpoSettings& settings, double beta, double divergence, double answers) {
  constexpr double error_max = 0.2;
  if (settings.kl_target == 0) return beta;
  const double error = std::clamp(divergence / settings.kl_target - 1, -error_max, error_max);
  return std::max(0.0, beta * (1 + error * answers / settings.kl_horizon));
}

}  // namespace longhaul
