// Matrix products. Everything dense in the engine goes through here: oneDNN where it has a primitive for the case, own
// blocked code otherwise (no oneDNN, no native bf16, odd cases). Primitives are cached by case in the context.
// Accumulation is f32, whatever the storage.
#pragma once

#include <cstdint>
#include <span>

#include "engine/core/compute_context.h"
#include "engine/core/tensor.h"

namespace longhaul {

// C[m, n] = alpha op(A)[m, k] op(B)[k, n] + beta C, row-major. op(X) = X or X^T as stored: transpose_a says that A lies
// as [k, m], transpose_b that B lies as [n, k]. Row strides in elements; 0 = tight (the stored number of columns).
struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  float alpha = 1.0F, beta = 0.0F;
  std::int64_t row_stride_a = 0, row_stride_b = 0, row_stride_c = 0;
};

// A, B: both f32 or both bf16. C: f32 or bf16 (bf16 only from bf16). C may not overlap A or B; with beta = 0 it is not
// read. The views give memory and type; their shape only has to hold enough elements.
void gemm(const ComputeContext& context, const GemmShape& shape, ConstView a, ConstView b, View c);

// The same by own code, never oneDNN: what `gemm` falls back to, and what the tests compare with it.
void gemm_portable(const ComputeContext& context, const GemmShape& shape, ConstView a, ConstView b, View c);

// Does `gemm` compile a product for each case that it meets, of A and B of this type? oneDNN does where it has AVX-512,
// or for bf16 AVX-512 with bf16: some 64 KB of code each. Its other products are the same code for every case.
bool gemm_compiles(const ComputeContext& context, DType ab);

// y = x W^T with W[out, in] as in Hugging Face files. x[tokens, in], y[tokens, out].
struct LinearShape {
  std::int64_t tokens = 0, in = 0, out = 0;
};

// y = x W^T (+ bias[out], empty: none). x, W, y, bias of one type, or x and W bf16 with y f32. Few tokens
// (<= kGemvTokensMax) take the memory-bound path of gemv.h.
void linear_forward(const ComputeContext& context, LinearShape shape, ConstView x, ConstView weight, View y,
                    ConstView bias = {});

// dx = dy W, or dx += dy W.
void linear_backward_input(const ComputeContext& context, LinearShape shape, ConstView dy, ConstView weight, View dx,
                           bool accumulate = false);

// dW += dy^T x, dW[out, in] in f32; db[out] += sum over tokens of dy (f32, empty: none). Gradients accumulate over
// micro-batches: zero them at the start of a step, or say accumulate = false for the first one.
void linear_backward_weight(const ComputeContext& context, LinearShape shape, ConstView dy, ConstView x, View dweight,
                            View dbias = {}, bool accumulate = true);

// The bias alone: db[out] += sum over tokens of dy.
void linear_backward_bias(const ComputeContext& context, LinearShape shape, ConstView dy, View dbias,
                          bool accumulate = true);

}  // namespace longhaul
