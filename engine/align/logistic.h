// The logistic function and its logarithm, without overflow for any x.
#pragma once

#include <cmath>

namespace longhaul {

// -log sigmoid(x) = log(1 + exp(-x))
inline double minus_log_sigmoid(double x) {
  return x > 0 ? std::log1p(std::exp(-x)) : -x + std::log1p(std::exp(x));
}
inline double sigmoid(double x) {
  return x > 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}

}  // namespace longhaul
