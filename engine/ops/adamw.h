// AdamW: Loshchilov & Hutter 2019, algorithm 2, in PyTorch's form:
//   p *= 1 - lr wd;  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;
//   p -= lr / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t) + eps)
#pragma once

#include <span>

#include "engine/core/compute_context.h"
#include "engine/core/tensor.h"

namespace longhaul {

struct AdamWStep {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
  std::int64_t step = 1;    // t, from 1
  float grad_scale = 1.0F;  // multiplies the gradient first: clipping and averaging without another pass
};

// master, m, v, grad f32 of one size; updated in place. compute_copy: the new weights in bf16 (or f32), same size;
// empty: none wanted.
void adamw_update(const ComputeContext& context, const AdamWStep& step, std::span<float> master, std::span<float> m,
                  std::span<float> v, std::span<const float> grad, View compute_copy);

}  // namespace longhaul
