#include "engine/align/policy_loss.h"

#include <algorithm>
#include <cmath>

namespace longhaul {

namespace {

constexpr double log_ratio_max = 20;

struct ClippedRatio {
  double value = 0;  // the surrogate
  double slope = 0;  // by the logarithm of the ratio
  bool clipped = false;
};

// The ratio is a weight of what the answer's likelihood teaches, and not learnt through.
ClippedRatio weighted_likelihood(const RolloutSettings& rollout, double log_ratio, double advantage, double model) {
  const double ratio = std::exp(std::clamp(log_ratio, -log_ratio_max, log_ratio_max));
  const double weight = std::min(ratio, 1 + rollout.clip_high);
  return {-weight * advantage * model, -weight * advantage, weight < ratio};
}

ClippedRatio clipped_ratio(const RolloutSettings& rollout, double log_ratio, double advantage) {
  const double held = std::clamp(log_ratio, -log_ratio_max, log_ratio_max), ratio = std::exp(held);
  const double bounded = std::clamp(ratio, 1 - rollout.clip_low, 1 + rollout.clip_high);
  if (bounded * advantage < ratio * advantage) return {-bounded * advantage, 0, true};
  if (rollout.dual_clip > 0 && advantage < 0 && ratio > rollout.dual_clip)
    return {-rollout.dual_clip * advantage, 0, true};
  return {-ratio * advantage, held == log_ratio ? -ratio * advantage : 0, false};
}

// The bounded ratio is a weight, and what is learnt through is the ratio to the model itself, 1.
ClippedRatio weighted_ratio(const RolloutSettings& rollout, double importance, double advantage) {
  const double weight = std::min(importance, rollout.importance_cap);
  return {-weight * advantage, -weight * advantage, weight < importance};
}

ClippedRatio surrogate(const RolloutSettings& rollout, double log_ratio, double advantage, double model) {
  if (rollout.surrogate == "cispo") return weighted_likelihood(rollout, log_ratio, advantage, model);
  return clipped_ratio(rollout, log_ratio, advantage);
}

}  // namespace

PolicyLoss policy_loss(const AlignSettings& settings, const AnswerScores& scores) {
  const std::size_t tokens = scores.model.size();
  PolicyLoss sums;
  sums.slopes.assign(tokens, 0.0);
  const bool whole = settings.rollout.ratio == "sequence";
  double mean = 0;
  for (std::size_t t = 0; t < tokens; ++t) mean += (scores.model[t] - scores.drawn[t]) / static_cast<double>(tokens);
  for (std::size_t t = 0; t < tokens; ++t) {
    // Of a whole answer every token has the ratio, and a share of its slope: the n shares of n equal terms are one.
    const double log_ratio = whole ? mean : scores.model[t] - scores.drawn[t];
    const double advantage = scores.advantages.empty() ? scores.advantage : scores.advantages[t];
    const bool weighed = settings.rollout.importance_cap > 0;
    const double importance = weighed ? std::exp(std::clamp(log_ratio, -log_ratio_max, log_ratio_max)) : 0;
    const ClippedRatio one = weighed ? weighted_ratio(settings.rollout, importance, advantage)
                                     : surrogate(settings.rollout, log_ratio, advantage, scores.model[t]);
    sums.importance += importance, sums.importance_max = std::max(sums.importance_max, importance);
    sums.loss += one.value, sums.slopes[t] += one.slope, sums.clipped += one.clipped ? 1 : 0;
    if (scores.reference.empty()) continue;
    const double difference = scores.reference[t] - scores.model[t];
    const double held = std::clamp(difference, -log_ratio_max, log_ratio_max);
    const double k3 = std::exp(held) - held - 1;
    sums.divergence += k3, sums.loss += settings.beta * k3;
    if (held == difference) sums.slopes[t] += settings.beta * (1 - std::exp(held));
  }
  return sums;
}

}  // namespace longhaul
