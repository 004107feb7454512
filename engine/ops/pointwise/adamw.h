// AdamW: Loshchilov & Hutter 2019, algorithm 2, in PyTorch's form:
//   p *= 1 - lr wd;  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;
//   p -= lr / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t) + eps)
// Moments may be kept in bf16: the sums above are in f32, the step takes them unrounded, and what is kept is rounded.
#pragma once

#include <span>

#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/tensor.h"
#include "engine/ops/linear/stochastic_rounding.h"

namespace longhaul {

struct AdamWStep {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
  std::int64_t step = 1;    // t, from 1
  float grad_scale = 1.0F;  // multiplies the gradient first: clipping and averaging without another pass
};

// Of one parameter, or a part of it: the bits of its elements, and which they are. random.stream: of this parameter in
// this step.
struct AdamWRounding {
  Philox random;
  ElementOrder order;      // of the parameter's box
  std::int64_t begin = 0;  // element of the box that comes first in the arrays
};

// master, grad f32, m and v both f32, both bf16, or bf16 and f32, all of one size; updated in place. compute_copy: the
// new weights in bf16 (or f32), same size; empty: none wanted. rounding: bf16 moments are rounded stochastically; null:
// to nearest. The result does not depend on the number of threads.
void adamw_update(const ComputeContext& context, const AdamWStep& step, std::span<float> master, View m, View v,
                  std::span<const float> grad, View compute_copy, const AdamWRounding* rounding = nullptr);

}  // namespace longhaul
