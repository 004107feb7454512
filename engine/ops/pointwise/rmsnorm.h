// RMSNorm: Zhang & Sennrich 2019, eq. 4; order of casts as in Hugging Face's Llama:
//   r = 1 / sqrt(mean(x^2) + eps) in f32;  y = weight * cast(x r)   (cast to the storage type before the weight)
// Backward, with g = dy * weight and n = x r:  dx = r (g - n mean(g n));  dweight += sum over tokens of dy n.
#pragma once

#include <span>

#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/tensor.h"

namespace longhaul {

struct RmsNormShape {
  std::int64_t tokens = 0, hidden = 0;
  float eps = 1e-5F;
};

// x, y [tokens, hidden], weight [hidden], one type (f32 or bf16). inv_rms [tokens] f32 is r, kept for backward (empty:
// not wanted). y may be x.
void rmsnorm_forward(const ComputeContext& context, RmsNormShape shape, ConstView x, ConstView weight, View y,
                     std::span<float> inv_rms);

// dx = gradient, or dx += gradient (residual streams). dweight [hidden] f32 accumulates; empty: not wanted. dx may be
// dy when accumulate is false.
void rmsnorm_backward(const ComputeContext& context, RmsNormShape shape, ConstView dy, ConstView x, ConstView weight,
                      std::span<const float> inv_rms, View dx, std::span<float> dweight, bool accumulate_dx = false);

// y = a + b; then the norm of y: the residual and the norm of a Llama block in one pass. sum may be a or b.
void add_rmsnorm_forward(const ComputeContext& context, RmsNormShape shape, ConstView a, ConstView b, ConstView weight,
                         View sum, View y, std::span<float> inv_rms);

}  // namespace longhaul
