// GELU in its tanh form: Hendrycks & Gimpel 2016, section 2 ("gelu_new" of Hugging Face's GPT-2):
//   y = x / 2 (1 + tanh u) = x sigmoid(2 u),  u = sqrt(2 / pi) (x + 0.044715 x^3)
// Backward, s = sigmoid(2 u):  dx = dy (s + 2 x s (1 - s) u'),  u' = sqrt(2 / pi) (1 + 3 * 0.044715 x^2).
#pragma once

#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/tensor.h"

namespace longhaul {

// One type (f32 or bf16), computed in f32; as many elements as y has. y may be x.
void gelu_forward(const ComputeContext& context, ConstView x, View y);

// x as it was before. dx may be dy or x.
void gelu_backward(const ComputeContext& context, ConstView dy, ConstView x, View dx);

}  // namespace longhaul
