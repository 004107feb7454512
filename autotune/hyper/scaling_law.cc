#include "autotune/hyper/scaling_law.h"

#include <cmath>

namespace longhaul::hyper {

double ScalingLaw::loss(double parameters, double tokens) const {
  return e + a / std::pow(parameters, alpha) + b / std::pow(tokens, beta);
}

ComputeOptimal compute_optimal(double flops, const ScalingLaw& law) {
  const double sum = law.alpha + law.beta;
  const double g = std::pow(law.alpha * law.a / (law.beta * law.b), 1 / sum);
  ComputeOptimal best;
  best.parameters = g * std::pow(flops / 6, law.beta / sum);
  best.tokens = std::pow(flops / 6, law.alpha / sum) / g;
  best.loss = law.loss(best.parameters, best.tokens);
  return best;
}

}  // namespace longhaul::hyper
