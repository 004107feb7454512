// What `longhaul-engine measure` would have timed of a server's operations on a machine that was made up.
#pragma once

#include "contracts/plan/serving_speed.h"

namespace longhaul::testing {

// A weight takes 0.1 ns from the nearest cache, more from each further one, and 10 ps for each row.
inline ServingSpeed made_up_serving() {
  ServingSpeed speed;
  double read = 1e-10;
  for (const std::int64_t set : serving_sets) {
    for (const std::int64_t rows : serving_rows)
      speed.products.push_back({rows, set, read + 1e-11 * static_cast<double>(rows)});
    read *= 2;
  }
  speed.cache_near = 2e-11, speed.cache_shared = 6e-11, speed.cache_far = 2e-10;
  speed.call = 2e-6, speed.attention = 5e-11, speed.prompt_attention = 2e-11, speed.layer = 2e-5, speed.element = 1e-9,
  speed.logit = 1e-8;
  return speed;
}

}  // namespace longhaul::testing
