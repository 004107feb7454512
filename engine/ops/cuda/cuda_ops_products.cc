// CudaOps: products with something fused into them, and products of eight bits.
#include "base/text/text.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cuda/cuda_ops.h"
#include "engine/ops/cuda/linear/fp8_kernels.h"
#include "engine/ops/cuda/linear/low_precision_kernels.h"

namespace longhaul::cuda {

using cpu::elements;
using cpu::with_float_type;

void CudaOps::linear_gelu_forward(LinearShape s, ConstView x, ConstView weight, ConstView bias, View before,
                                  View y) const {
  GemmShape shape{.m = s.tokens, .n = s.out, .k = s.in};
  shape.transpose_b = true;
  if (gemm_.run_fused(stream_, shape, x, weight, y, {GemmEpilogue::What::bias_gelu, bias, before})) return;
  linear_forward(s, x, weight, before, bias);
  gelu_forward(before, y);
}

void CudaOps::linear_gelu_backward(LinearShape s, ConstView dy, ConstView weight, ConstView before, View dx) const {
  const GemmShape shape{.m = s.tokens, .n = s.in, .k = s.out};
  const View read(const_cast<void*>(before.data()), before.dtype(), before.shape());
  if (gemm_.run_fused(stream_, shape, dy, weight, dx, {GemmEpilogue::What::gelu_backward, {}, read})) return;
  linear_backward_input(s, dy, weight, dx, false);
  gelu_backward(dx, before, dx);
}

Fp8Support CudaOps::fp8_support() const {
  return gemm_.fp8_support();
}
std::string CudaOps::fp8_refusal(const Fp8Product& shape, const Fp8Operands& operands, ConstView c) const {
  return gemm_.fp8_refusal(shape, operands, c);
}

void CudaOps::fp8_cast(const Fp8Cast& how, ConstView x, View codes, View scales) const {
  const Fp8Matrix& m = how.to;
  auto* const to = elements<std::uint8_t>(codes, m.rows * m.columns, "codes");
  auto* const scale = elements<std::uint8_t>(scales, m.scale_bytes(), "scales");
  LH_ASSERT(reinterpret_cast<std::uintptr_t>(to) % 16 == 0, "codes begin at multiples of 16 bytes");
  if (m.scales == Fp8Scales::mx) device_.zero(scale, m.scale_bytes());
  with_float_type(x.dtype(), "fp8_cast", [&](auto type) {
    using T = decltype(type);
    cast_fp8<T>(stream_, {how, elements<T>(x, m.rows * m.columns, "x"), to, scale});
  });
}

void CudaOps::fp8_keep_amax(ConstView x, View amax) const {
  const Index n = x.size();
  if (n == 0) return;
  auto* const parts = reinterpret_cast<std::uint32_t*>(scratch(0, quantize_flat_parts(n) * 4));
  auto* const kept = reinterpret_cast<std::uint32_t*>(elements<float>(amax, 1, "amax"));
  with_float_type(x.dtype(), "fp8_keep_amax", [&](auto type) {
    using T = decltype(type);
    keep_largest_magnitude<T>(stream_, n, elements<T>(x, n, "x"), parts, kept);
  });
}

void CudaOps::fp8_tensor_scale(NumberFormat format, int margin, ConstView amax, View scale) const {
  tensor_scale_fp8(stream_, format, margin, elements<float>(amax, 1, "amax"), elements<float>(scale, 1, "scale"));
}

void CudaOps::fp8_product(const Fp8Product& s, const Fp8Operands& operands, View c, ConstView bias) const {
  if (!gemm_.run_fp8(stream_, s, operands, c, bias) && !bias.empty()) add_to_rows(bias, s.m, c);
}

}  // namespace longhaul::cuda
