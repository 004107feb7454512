#include "engine/align/labels/label_loss.h"

#include <algorithm>
#include <numeric>

#include "engine/align/logistic.h"

namespace longhaul {

LabelLoss kto_loss(const AlignSettings& settings, double log_ratio, double divergence, bool desirable) {
  const double sign = desirable ? 1 : -1;
  const double weight = desirable ? settings.desirable_weight : settings.undesirable_weight;
  const double value = sigmoid(sign * settings.beta * (log_ratio - divergence));
  return {weight * (1 - value), -weight * sign * settings.beta * value * (1 - value)};
}

double divergence_estimate(std::span<const double> log_ratios) {
  if (log_ratios.empty()) return 0;
  const double sum = std::accumulate(log_ratios.begin(), log_ratios.end(), 0.0);
  return std::max(0.0, sum / static_cast<double>(log_ratios.size()));
}

}  // namespace longhaul
