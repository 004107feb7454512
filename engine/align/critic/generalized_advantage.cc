#include "engine/align/critic/generalized_advantage.h"

#include <string>

#include "base/error/result.h"

namespace longhaul {

TokenAdvantages generalized_advantages(double gamma, double lambda, std::span<const double> rewards,
                                       std::span<const double> values) {
  LH_ASSERT(rewards.size() == values.size(), std::to_string(values.size()));
  TokenAdvantages all;
  all.advantages.resize(values.size()), all.returns.resize(values.size());
  double next_value = 0, next_advantage = 0;
  for (std::size_t t = values.size(); t-- > 0;) {
    const double delta = rewards[t] + gamma * next_value - values[t];
    all.advantages[t] = next_advantage = delta + gamma * lambda * next_advantage;
    all.returns[t] = all.advantages[t] + values[t];
    next_value = values[t];
  }
  return all;
}

}  // namespace longhaul
