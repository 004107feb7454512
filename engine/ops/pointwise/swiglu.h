// SwiGLU: Shazeer 2020, eq. 6: out = silu(gate) * up, silu(z) = z / (1 + exp(-z)).
// Backward, s = sigmoid(gate): dup = dout gate s;  dgate = dout up s (1 + gate (1 - s)).
#pragma once

#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/tensor.h"

namespace longhaul {

struct SwiGluShape {
  std::int64_t tokens = 0, ffn = 0;
  std::int64_t row_stride =
      0;  // of gate, up, dgate, dup: elements per token; 0 = ffn (2 * ffn when both lie in one tensor)
};

// gate, up, out [tokens, ffn], one type (f32 or bf16). out may be gate or up when row_stride is tight.
void swiglu_forward(const ComputeContext& context, SwiGluShape shape, ConstView gate, ConstView up, View out);

// dgate may be gate, dup may be up (and out's memory is not needed).
void swiglu_backward(const ComputeContext& context, SwiGluShape shape, ConstView dout, ConstView gate, ConstView up,
                     View dgate, View dup);

// The same where gate and up stand side by side in rows of 2 * ffn elements, as the fused products of a model write
// them; out and dout [tokens, ffn] say the shape, and gate_up and dgate_up may have more rows, which are left alone.
// dgate_up may be gate_up.
void swiglu_forward(const ComputeContext& context, ConstView gate_up, View out);
void swiglu_backward(const ComputeContext& context, ConstView dout, ConstView gate_up, View dgate_up);

}  // namespace longhaul
