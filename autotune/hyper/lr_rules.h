// How Adam's settings follow a change of the batch size.
#pragma once

#include <cstdint>

#include "contracts/settings/training/training.h"

namespace longhaul::hyper {

// The square-root scaling rule (Malladi et al. 2022, 2205.10287): with kappa times the batch
//   lr * sqrt(kappa), 1 - beta -> kappa (1 - beta) for both moments, eps / sqrt(kappa).
// A run then follows the same path in 1/kappa of the steps. It is derived where noise dominates the gradient: below the
// critical batch (McCandlish et al. 2018, 1812.06162), beyond which neither rule holds and larger batches gain nothing.
// Practice often keeps the betas and moves lr alone; the linear rule of Goyal et al. 2017 (1706.02677) is SGD's.
// Warm-up and weight decay: warmup_steps / kappa; the decay per step is lr * weight_decay, so weight_decay *
// sqrt(kappa) forgets as much per token as before (Wang & Aitchison 2024, 2405.13698). An error where kappa is not
// positive, or so large that no beta is left (kappa (1 - beta) >= 1).
Result<OptimizerSettings> scale_with_batch(const OptimizerSettings& settings, double kappa);

}  // namespace longhaul::hyper
