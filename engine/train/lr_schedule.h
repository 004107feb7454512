// Learning rate of a step: linear warm-up, then a decay to lr * lr_min_ratio at the last step.
//   cosine: lr_min + (lr - lr_min) (1 + cos(pi x)) / 2 (Loshchilov & Hutter 2017, eq. 5), x from 0 after the warm-up to
//   1 linear: the straight line; constant: lr
#pragma once

#include "contracts/settings/training.h"

namespace longhaul {

// step counts from 1 (the update about to be made) to `steps`. The first warm-up step has lr / warmup_steps, the last
// has lr.
double learning_rate(const OptimizerSettings& settings, std::int64_t step, std::int64_t steps);

}  // namespace longhaul
