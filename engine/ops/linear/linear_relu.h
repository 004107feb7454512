// A linear layer and r(x) = max(x, 0) behind it, or before it in the backward pass (Nair and Hinton 2010, "Rectified
// linear units improve restricted Boltzmann machines"). All in f32.
#pragma once

#include "engine/ops/linear/gemm.h"

namespace longhaul {

// y [tokens, out] = r(x W^T + bias [out])
void linear_relu_forward(const ComputeContext& context, LinearShape shape, ConstView x, ConstView weight,
                         ConstView bias, View y);

// dx [tokens, in] = dy W where y [tokens, in], which relu gave, is above 0, and 0 elsewhere.
void linear_relu_backward(const ComputeContext& context, LinearShape shape, ConstView dy, ConstView weight, ConstView y,
                          View dx);

}  // namespace longhaul
