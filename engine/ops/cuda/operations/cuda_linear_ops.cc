#include "engine/ops/cuda/operations/cuda_linear_ops.h"

#include <algorithm>

#include "base/text/text.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cuda/common/row_parts.h"
#include "engine/ops/linear/gemv.h"

namespace longhaul::cuda {

using cpu::check_size;
using cpu::elements;
using cpu::with_float_type;

void CudaLinearOps::gemm(const GemmShape& shape, ConstView a, ConstView b, View c) const {
  if (shape.k > 0) return gemm_.run(work_.stream, shape, a, b, c);
  // A sum of nothing, which libraries refuse.
  LH_ASSERT(shape.row_stride_c == 0 && (shape.beta == 0.0F || shape.beta == 1.0F), "an empty product into a part");
  if (shape.beta == 0.0F) pointwise_.fill(View(c.data(), c.dtype(), Shape{shape.m * shape.n}), 0.0F);
}

void CudaLinearOps::linear_forward(LinearShape s, ConstView x, ConstView weight, View y, ConstView bias) const {
  GemmShape shape{.m = s.tokens, .n = s.out, .k = s.in};
  shape.transpose_b = true;
  if (s.tokens <= kGemvTokensMax) {
    gemv(s, x, weight, y);
  } else {
    if (!bias.empty() && gemm_.run_fused(work_.stream, shape, x, weight, y, {GemmEpilogue::What::bias, bias})) return;
    gemm(shape, x, weight, y);
  }
  if (!bias.empty()) pointwise_.add_to_rows(bias, s.tokens, y);
}

void CudaLinearOps::linear_backward_input(LinearShape s, ConstView dy, ConstView weight, View dx,
                                          bool accumulate) const {
  GemmShape shape{.m = s.tokens, .n = s.in, .k = s.out};
  shape.beta = accumulate ? 1.0F : 0.0F;
  gemm(shape, dy, weight, dx);
}

void CudaLinearOps::linear_backward_weight(LinearShape s, ConstView dy, ConstView x, View dweight, View dbias,
                                           bool accumulate) const {
  GemmShape shape{.m = s.out, .n = s.in, .k = s.tokens};
  shape.transpose_a = true;
  shape.beta = accumulate ? 1.0F : 0.0F;
  gemm(shape, dy, x, dweight);
  if (!dbias.empty()) linear_backward_bias(s, dy, dbias, accumulate);
}

void CudaLinearOps::linear_backward_bias(LinearShape s, ConstView dy, View dbias, bool accumulate) const {
  const Index blocks = column_sum_blocks(s.tokens);
  auto* parts = reinterpret_cast<float*>(work_.scratch(0, blocks * s.out * 4));
  with_float_type(dy.dtype(), "linear_backward_bias", [&](auto type) {
    using T = decltype(type);
    column_sums<T>(work_.stream, s.tokens, s.out, elements<T>(dy, s.tokens * s.out, "dy"), parts,
                   elements<float>(dbias, s.out, "dbias"), accumulate);
  });
}

}  // namespace longhaul::cuda
