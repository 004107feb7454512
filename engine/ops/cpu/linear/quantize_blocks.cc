#include "engine/ops/linear/quantize_blocks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "engine/core/tensor/parallel_for.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cpu/simd/kernels.h"
#include "engine/ops/device_ops.h"

namespace longhaul {
namespace {

using cpu::Index;
constexpr Index kRun = 16384;  // elements of a flat tensor that are one row; below, a thread costs more than it gives

cpu::QuantizeFormat kernel_format(NumberFormat format) {
  const NumberTraits t = traits_of(format);
  return {t.max, t.max + power_of_two(t.exponent_max - t.mantissa_bits - 1), t.exponent_min + 127,
          23 - t.mantissa_bits};
}

QuantizationSums as_sums(const std::array<double, 5>& s) {
  return {s[0], s[1], s[2], s[3], s[4]};
}

// The bands of block rows, each with its scales; sums are added in the order of the bands.
template <class T>
void quantize_bands(const ComputeContext& context, Index rows, Index columns, const BlockQuantization& how, const T* x,
                    T* y, QuantizationSums* sums) {
  const cpu::QuantizeFormat format = kernel_format(how.format);
  const cpu::Kernels& kernels = cpu::kernels(context);
  const auto blocks = static_cast<std::size_t>((columns + how.columns - 1) / how.columns);
  const Index bands = (rows + how.rows - 1) / how.rows;
  std::vector<std::array<double, 5>> parts(sums ? static_cast<std::size_t>(bands) : 0, std::array<double, 5>{});
  const Index grain = std::max<Index>(1, kRun / std::max<Index>(1, how.rows * columns));
  parallel_for(context, bands, grain, [&](Index begin, Index end) {
    std::vector<std::uint32_t> bits(blocks);
    std::vector<float> inverses(blocks), scales(blocks);
    for (Index band = begin; band < end; ++band) {
      const Index first = band * how.rows, last = std::min(rows, first + how.rows);
      std::ranges::fill(bits, 0);
      for (Index row = first; row < last; ++row)
        kernels.of<T>().quantize_magnitudes(x + row * columns, columns, how.columns, bits.data());
      for (std::size_t b = 0; b < blocks; ++b) {
        scales[b] = decode_e8m0(scale_code(how.format, how.rounding, std::bit_cast<float>(bits[b])));
        inverses[b] = 1.0F / scales[b];
      }
      for (Index row = first; row < last; ++row)
        kernels.of<T>().quantize_row(x + row * columns, y + row * columns, columns, how.columns, inverses.data(),
                                     scales.data(), format,
                                     sums ? parts[static_cast<std::size_t>(band)].data() : nullptr);
    }
  });
  for (const auto& part : parts) *sums += as_sums(part);
}

}  // namespace

void quantize_blocks(const ComputeContext& context, std::int64_t rows, std::int64_t columns,
                     const BlockQuantization& how, ConstView x, View y, QuantizationSums* sums) {
  if (const DeviceOps* device = context.device_ops()) return device->quantize_blocks(rows, columns, how, x, y, sums);
  LH_ASSERT(how.rows >= 1 && (how.columns == 1 || (how.columns >= 16 && how.columns % 16 == 0)),
            std::to_string(how.rows) + " x " + std::to_string(how.columns));
  cpu::with_float_type(x.dtype(), "quantize_blocks", [&](auto type) {
    using T = decltype(type);
    quantize_bands(context, rows, columns, how, cpu::elements<T>(x, rows * columns, "x"),
                   cpu::elements<T>(y, rows * columns, "y"), sums);
  });
}

void quantize_tensor(const ComputeContext& context, NumberFormat format, float scale, ConstView x, View y,
                     QuantizationSums* sums) {
  if (const DeviceOps* device = context.device_ops()) return device->quantize_tensor(format, scale, x, y, sums);
  const cpu::QuantizeFormat how = kernel_format(format);
  const float inverse = 1.0F / scale;
  const Index n = x.size();
  std::vector<std::array<double, 5>> parts(static_cast<std::size_t>((n + kRun - 1) / kRun), std::array<double, 5>{});
  cpu::with_float_type(x.dtype(), "quantize_tensor", [&](auto type) {
    using T = decltype(type);
    const T* from = cpu::elements<T>(x, n, "x");
    T* to = cpu::elements<T>(y, n, "y");
    parallel_chunks(context, n, kRun, [&](Index begin, Index end) {
      cpu::kernels(context).of<T>().quantize_row(from + begin, to + begin, end - begin, kRun, &inverse, &scale, how,
                                                 sums ? parts[static_cast<std::size_t>(begin / kRun)].data() : nullptr);
    });
  });
  if (!sums) return;
  for (const auto& part : parts) *sums += as_sums(part);
}

float largest_magnitude(const ComputeContext& context, ConstView x) {
  if (const DeviceOps* device = context.device_ops()) return device->largest_magnitude(x);
  const Index n = x.size();
  std::vector<std::uint32_t> parts(static_cast<std::size_t>((n + kRun - 1) / kRun), 0);
  cpu::with_float_type(x.dtype(), "largest_magnitude", [&](auto type) {
    using T = decltype(type);
    const T* from = cpu::elements<T>(x, n, "x");
    parallel_chunks(context, n, kRun, [&](Index begin, Index end) {
      cpu::kernels(context).of<T>().quantize_magnitudes(from + begin, end - begin, kRun,
                                                        &parts[static_cast<std::size_t>(begin / kRun)]);
    });
  });
  std::uint32_t most = 0;
  for (const std::uint32_t part : parts) most = std::max(most, part);
  return std::bit_cast<float>(most);
}

}  // namespace longhaul
