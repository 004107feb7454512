#include "engine/align/dpo.h"

#include <cmath>

namespace longhaul {

namespace {
// -log sigmoid(x), without overflow for any x.
double softplus_negative(double x) {
  return x > 0 ? std::log1p(std::exp(-x)) : -x + std::log1p(std::exp(x));
}
double sigmoid(double x) {
  return x > 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}
}  // namespace

DpoLoss dpo_loss(const DpoSettings& settings, const DpoPair& pair) {
  DpoLoss result;
  result.margin = (pair.chosen - pair.chosen_reference) - (pair.rejected - pair.rejected_reference);
  const double x = settings.beta * result.margin, e = settings.label_smoothing;
  result.loss = (1 - e) * softplus_negative(x) + e * softplus_negative(-x);
  result.d_chosen = -settings.beta * ((1 - e) * sigmoid(-x) - e * sigmoid(x));
  result.d_rejected = -result.d_chosen;
  return result;
}

}  // namespace longhaul
