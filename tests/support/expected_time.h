// The model that the formulas of the interval of saves approximate.
#pragma once

#include <cmath>

namespace longhaul::testing {

// Daly 2006, equation 20, relative to a training without failures and saves: the factor by which the wall time grows
// with saves every `interval_s` of training, failures of exponential distances (that strike saves and restarts as well)
// and `restart_s` from a failure until training goes on: (M/tau) e^(R/M) (e^((tau+w)/M) - 1).
inline double expected_time_factor(double interval_s, double stall_s, double mtbf_s, double restart_s) {
  return mtbf_s / interval_s * std::exp(restart_s / mtbf_s) * std::expm1((interval_s + stall_s) / mtbf_s);
}

}  // namespace longhaul::testing
