// Numbers of few bits.
#include <bit>

#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cuda/linear/low_precision_kernels.h"
#include "engine/ops/cuda/operations/cuda_linear_ops.h"

namespace longhaul::cuda {

using cpu::elements;
using cpu::with_float_type;

// The parts' sum, which the host waits for.
void CudaLinearOps::take_sums(Index count, double* parts, QuantizationSums& sums) const {
  double* const on_device = parts + count * quantization_sums;
  add_quantization_parts(work_.stream, count, parts, on_device);
  double s[quantization_sums];
  work_.device.copy_out(on_device, s, sizeof(s));
  sums += {s[0], s[1], s[2], s[3], s[4]};
}

void CudaLinearOps::quantize_blocks(std::int64_t rows, std::int64_t columns, const BlockQuantization& how, ConstView x,
                                    View y, QuantizationSums* sums) const {
  LH_ASSERT(how.rows >= 1 && (how.columns == 1 || (how.columns >= 16 && how.columns % 16 == 0)),
            std::to_string(how.rows) + " x " + std::to_string(how.columns));
  const Index n = rows * columns;
  if (n == 0) return;
  with_float_type(x.dtype(), "quantize_blocks", [&](auto type) {
    using T = decltype(type);
    QuantizeBlocks<T> p{rows, columns, how, elements<T>(x, n, "x"), elements<T>(y, n, "y"), nullptr};
    const Index count = quantize_blocks_parts(p);
    if (sums) p.parts = reinterpret_cast<double*>(work_.scratch(0, (count + 1) * quantization_sums * 8));
    cuda::quantize_blocks(work_.stream, p);
    if (sums) take_sums(count, p.parts, *sums);
  });
}

void CudaLinearOps::quantize_tensor(NumberFormat format, float scale, ConstView x, View y,
                                    QuantizationSums* sums) const {
  const Index n = x.size(), count = quantize_flat_parts(n);
  if (n == 0) return;
  double* const parts =
      sums ? reinterpret_cast<double*>(work_.scratch(0, (count + 1) * quantization_sums * 8)) : nullptr;
  with_float_type(x.dtype(), "quantize_tensor", [&](auto type) {
    using T = decltype(type);
    quantize_flat<T>(work_.stream, format, scale, n, elements<T>(x, n, "x"), elements<T>(y, n, "y"), parts);
  });
  if (sums) take_sums(count, parts, *sums);
}

float CudaLinearOps::largest_magnitude(ConstView x) const {
  const Index n = x.size(), count = quantize_flat_parts(n);
  if (n == 0) return 0;
  auto* const parts = reinterpret_cast<std::uint32_t*>(work_.scratch(0, (count + 1) * 4));
  with_float_type(x.dtype(), "largest_magnitude", [&](auto type) {
    using T = decltype(type);
    cuda::largest_magnitude<T>(work_.stream, n, elements<T>(x, n, "x"), parts, parts + count);
  });
  std::uint32_t most = 0;
  work_.device.copy_out(parts + count, &most, sizeof(most));
  return std::bit_cast<float>(most);
}

}  // namespace longhaul::cuda
