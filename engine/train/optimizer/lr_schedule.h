// The learning rate of every step: a linear warm-up, then one of five schedules. With n = step, w = warm-up steps,
// S = all steps, lr the peak, lr_min = lr * lr_min_ratio, and x = (n - w) / (S - w), from 0 to 1 after the warm-up:
//
//   warm-up       lr_start + (lr - lr_start) n / w                   n <= w; lr_start = lr * lr_start_ratio
//   constant      lr
//   linear        lr_min + (lr - lr_min) (1 - x)
//   cosine        lr_min + (lr - lr_min) (1 + cos(pi x)) / 2         Loshchilov & Hutter 2017 (1608.03983), equation 5
//   inverse_sqrt  max(lr_min, lr sqrt(w / n))                        Vaswani et al. 2017 (1706.03762), section 5.3
//   wsd           lr, then lr_min + (lr - lr_min) f(r)               Hu et al. 2024 (MiniCPM, 2404.06395), section 4.2
//
// WSD (warm-up, stable, decay): r = (n - (S - D)) / D goes from 0 to 1 in the last D = lr_decay_steps; a run can go on
// from any checkpoint of the stable part. Its shapes f:
//
//   linear          1 - r
//   cosine          (1 + cos(pi r)) / 2
//   one_minus_sqrt  1 - sqrt(r)           Hägele et al. 2024 (2405.18392)
//   exponential     2 * 0.5^r - 1         Hu et al.'s 0.5^r, stretched to end at lr_min as in Megatron-LM
//
// Re-warming (continued pretraining; Ibrahim et al. 2024, 2403.08763): after step `rewarm_after` the schedule begins
// again over the steps that are left, with the warm-up `rewarm_steps` from where it had ended up to lr. The steps
// before are a schedule of their own.
#pragma once

#include "contracts/settings/training/training.h"
#include "contracts/settings/training/training_phases.h"

namespace longhaul {

// step counts from 1 (the update about to be made) to `steps`, and stays at the end beyond. The first warm-up step is
// one w-th above lr_start, the last has lr; a run shorter than twice its warm-up warms up in its first half.
double learning_rate(const OptimizerSettings& settings, std::int64_t step, std::int64_t steps);

// The same of a training in phases: inside a phase it goes from where the phase before ended to the phase's own rate,
// lr_end + (lr_begin - lr_end) f(r) with r = (n - first + 1) / steps; "constant" is lr_end from its first step on. A
// first phase begins at 0: "linear" is its warm-up.
double learning_rate(const PlannedPhase& phase, std::int64_t step);

// f above: how much of a decay is left at r in [0, 1]; 1 at 0, 0 at 1. An unknown shape is a broken invariant.
double decay_share(const std::string& shape, double r);

}  // namespace longhaul
