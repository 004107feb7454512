// "x B parameters on t tokens in y days on z GPUs at u achieved TFLOP/s per GPU": any one of the five from the others.
//
//   days * 86400 * gpus * tflops * 1e12 = flops_per_parameter_token * parameters * tokens
//
// flops_per_parameter_token is 6 where the rate counts the model's own operations (forward 2, backward 4; Kaplan et al.
// 2020, 2001.08361, section 2.1), and 8 where it counts what full recomputation does again as well (Narayanan et al.
// 2021, 2104.04473: end-to-end time 8 T P / (n X)). Attention over the sequence is not in it: at hidden size h, s
// tokens and causal attention it adds about s / (6 h).
#pragma once

#include "base/error/result.h"

namespace longhaul::hyper {

struct TrainingBudget {
  // 0: not given.
  double parameters = 0, tokens = 0, days = 0, gpus = 0;
  double tflops = 0;                     // achieved, per GPU
  double flops_per_parameter_token = 6;  // 8 with full recomputation
  double tokens_per_parameter = 0;       // instead of one of parameters and tokens: tokens = ratio * parameters

  double flops() const { return flops_per_parameter_token * parameters * tokens; }
  double gpu_hours() const { return days * 24 * gpus; }
};

// Fills in what is 0. Exactly one of the five may be missing, or both parameters and tokens with a ratio, which then
// counts as the fifth. With a ratio and one of parameters and tokens the other follows from it. Errors name everything
// that is missing, too much or negative.
Result<TrainingBudget> solve_budget(const TrainingBudget& given);

}  // namespace longhaul::hyper
