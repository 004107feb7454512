// A linear layer and the GELU (gelu.h) behind it or before it in the backward pass, in one: on a GPU the product's own
// last step, which saves reading and writing a matrix.
#pragma once

#include "engine/ops/linear/gemm.h"

namespace longhaul {

// before [tokens, out] = x W^T + bias [out], kept for the backward pass; y [tokens, out] = gelu of it. All of one type.
// Fused, GELU is taken of the f32 sum; else of `before`, as stored.
void linear_gelu_forward(const ComputeContext& context, LinearShape shape, ConstView x, ConstView weight,
                         ConstView bias, View before, View y);

// dx [tokens, in] = (dy W) times GELU's slope at before [tokens, in].
void linear_gelu_backward(const ComputeContext& context, LinearShape shape, ConstView dy, ConstView weight,
                          ConstView before, View dx);

}  // namespace longhaul
