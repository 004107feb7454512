// Products with something fused into them or right behind them, and products of eight bits.
#include "base/text/text.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cuda/linear/fp8_kernels.h"
#include "engine/ops/cuda/linear/low_precision_kernels.h"
#include "engine/ops/cuda/operations/cuda_linear_ops.h"
#include "engine/ops/cuda/pointwise/pointwise_kernels.h"

namespace longhaul::cuda {

using cpu::elements;
using cpu::with_float_type;

void CudaLinearOps::linear_gelu_forward(LinearShape s, ConstView x, ConstView weight, ConstView bias, View before,
                                        View y) const {
  GemmShape shape{.m = s.tokens, .n = s.out, .k = s.in};
  shape.transpose_b = true;
  if (gemm_.run_fused(work_.stream, shape, x, weight, y, {GemmEpilogue::What::bias_gelu, bias, before})) return;
  linear_forward(s, x, weight, before, bias);
  pointwise_.gelu_forward(before, y);
}

void CudaLinearOps::linear_gelu_backward(LinearShape s, ConstView dy, ConstView weight, ConstView before,
                                         View dx) const {
  const GemmShape shape{.m = s.tokens, .n = s.in, .k = s.out};
  const View read(const_cast<void*>(before.data()), before.dtype(), before.shape());
  if (gemm_.run_fused(work_.stream, shape, dy, weight, dx, {GemmEpilogue::What::gelu_backward, {}, read})) return;
  linear_backward_input(s, dy, weight, dx, false);
  pointwise_.gelu_backward(dx, before, dx);
}

void CudaLinearOps::linear_relu_forward(LinearShape s, ConstView x, ConstView weight, ConstView bias, View y) const {
  linear_forward(s, x, weight, y, bias);
  auto* const kept = elements<float>(y, s.tokens * s.out, "y");
  keep_positive(work_.stream, s.tokens * s.out, kept, kept);
}

void CudaLinearOps::linear_relu_backward(LinearShape s, ConstView dy, ConstView weight, ConstView y, View dx) const {
  const Index n = s.tokens * s.in;
  linear_backward_input(s, dy, weight, dx, false);
  keep_positive(work_.stream, n, elements<float>(y, n, "y"), elements<float>(dx, n, "dx"));
}

Fp8Support CudaLinearOps::fp8_support() const {
  return gemm_.fp8_support();
}
std::string CudaLinearOps::fp8_refusal(const Fp8Product& shape, const Fp8Operands& operands, ConstView c) const {
  return gemm_.fp8_refusal(shape, operands, c);
}

void CudaLinearOps::fp8_cast(const Fp8Cast& how, ConstView x, View codes, View scales) const {
  const Fp8Matrix& m = how.to;
  auto* const to = elements<std::uint8_t>(codes, m.rows * m.columns, "codes");
  auto* const scale = elements<std::uint8_t>(scales, m.scale_bytes(), "scales");
  LH_ASSERT(reinterpret_cast<std::uintptr_t>(to) % 16 == 0, "codes begin at multiples of 16 bytes");
  if (m.scales == Fp8Scales::mx) work_.device.zero(scale, m.scale_bytes());
  with_float_type(x.dtype(), "fp8_cast", [&](auto type) {
    using T = decltype(type);
    cast_fp8<T>(work_.stream, {how, elements<T>(x, m.rows * m.columns, "x"), to, scale});
  });
}

void CudaLinearOps::fp8_keep_amax(ConstView x, View amax) const {
  const Index n = x.size();
  if (n == 0) return;
  auto* const parts = reinterpret_cast<std::uint32_t*>(work_.scratch(0, quantize_flat_parts(n) * 4));
  auto* const kept = reinterpret_cast<std::uint32_t*>(elements<float>(amax, 1, "amax"));
  with_float_type(x.dtype(), "fp8_keep_amax", [&](auto type) {
    using T = decltype(type);
    keep_largest_magnitude<T>(work_.stream, n, elements<T>(x, n, "x"), parts, kept);
  });
}

void CudaLinearOps::fp8_tensor_scale(NumberFormat format, int margin, ConstView amax, View scale) const {
  tensor_scale_fp8(work_.stream, format, margin, elements<float>(amax, 1, "amax"), elements<float>(scale, 1, "scale"));
}

void CudaLinearOps::fp8_product(const Fp8Product& s, const Fp8Operands& operands, View c, ConstView bias) const {
  if (!gemm_.run_fp8(work_.stream, s, operands, c, bias) && !bias.empty()) pointwise_.add_to_rows(bias, s.m, c);
}

}  // namespace longhaul::cuda
