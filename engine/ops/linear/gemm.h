// Room engine/ops/linear
// The contracts of matrix products, of number formats with few bits, and of quantisation.
// gemm.h is the plain product; gemv.h few rows; weight_only.h weights of few bits; fp8.h eight-bit operands.
// number_formats.h is the arithmetic of codes, quantize_blocks.h fake quantisation, stochastic_rounding.h bf16.
// It knows no implementation: cpu/gemm, cpu/linear, cuda/linear and cuda/libraries include it.
//
// Matrix products. Everything dense in the engine goes through here: oneDNN where it has code for the type and an
// instruction multiplies it, else the engine's own packed product (engine/ops/cpu/gemm: choose_product.h says which).
// oneDNN's primitives are cached by case in the context. Accumulation is f32, whatever the storage, and a result in
// bf16 is rounded once.
#pragma once

#include <cstdint>
#include <span>

#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/tensor.h"

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

// The same by the packed product, never oneDNN.
void gemm_packed(const ComputeContext& context, const GemmShape& shape, ConstView a, ConstView b, View c);

// Does `gemm` compile a product for each case that it meets, of A and B of this type? oneDNN does where it has AVX-512,
// or for bf16 AVX-512 with bf16: some 64 KB of code each. Its other products are the same code for every case.
bool gemm_compiles(const ComputeContext& context, DType ab);

// Does `gemm` compute products of such A and B by the packed product? It takes up to packed_product_bytes
// (contracts/plan/memory_plan.h) of scratch memory.
bool gemm_is_packed(const ComputeContext& context, DType ab);

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
