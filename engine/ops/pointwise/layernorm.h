// Layer normalisation: Ba, Kiros & Hinton 2016, eq. 4, with the variance of the whole row (as torch.nn.LayerNorm):
//   s = 1 / sqrt(var(x) + eps), n = (x - mean(x)) s, both f32;  y = n * weight + bias, rounded once
// Backward, with g = dy * weight:  dx = s (g - mean(g) - n mean(g n));  dweight += sum over tokens of dy n;
//   dbias += sum over tokens of dy.
#pragma once

#include <span>

#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/tensor.h"

namespace longhaul {

struct LayerNormShape {
  std::int64_t tokens = 0, hidden = 0;
  float eps = 1e-5F;
};

// x, y [tokens, hidden], weight and bias [hidden], one type (f32 or bf16). statistics [tokens, 2] f32 is the mean and s
// of each token, kept for backward (empty: not wanted). y may be x.
void layernorm_forward(const ComputeContext& context, LayerNormShape shape, ConstView x, ConstView weight,
                       ConstView bias, View y, std::span<float> statistics);

// dx = gradient, or dx += gradient (residual streams). dweight and dbias [hidden] f32 accumulate; empty: neither is
// wanted. dx may be dy when accumulate is false.
void layernorm_backward(const ComputeContext& context, LayerNormShape shape, ConstView dy, ConstView x,
                        ConstView weight, std::span<const float> statistics, View dx, std::span<float> dweight,
                        std::span<float> dbias, bool accumulate_dx = false);

// sum = a + b + column_bias; y = the norm of sum: the residual, the bias of the linear layer before it and the norm
// after it in one pass. column_bias [hidden] of the same type; empty: none. sum may be a or b.
void add_layernorm_forward(const ComputeContext& context, LayerNormShape shape, ConstView a, ConstView b,
                           ConstView column_bias, ConstView weight, ConstView bias, View sum, View y,
                           std::span<float> statistics);

}  // namespace longhaul
