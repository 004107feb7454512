// Weights to codes of few bits: once per model, so plain loops.
#include <algorithm>
#include <cmath>

#include "base/text/text.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/linear/number_formats.h"
#include "engine/ops/linear/weight_only.h"

namespace longhaul {
namespace {

constexpr float scale_min = 1e-30F;  // below, rows count as zeros

// NaN where one of them is not finite.
float largest_of(std::span<const float> weights) {
  float largest = 0;
  for (const float w : weights) {
    if (!std::isfinite(w)) return NAN;
    largest = std::max(largest, std::fabs(w));
  }
  return largest;
}
float scale_for(float largest, float levels) {
  return largest / levels >= scale_min ? largest / levels : 1.0F;
}

}  // namespace

bool quantize_fp8(std::int64_t rows, std::int64_t columns, std::span<const float> weight, std::span<std::uint8_t> codes,
                  std::span<float> scales) {
  cpu::check_size(weight.size(), rows * columns, "weight");
  cpu::check_size(codes.size(), rows * columns, "codes");
  cpu::check_size(scales.size(), rows, "scales");
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto of_row = weight.subspan(static_cast<std::size_t>(row * columns), static_cast<std::size_t>(columns));
    const float largest = largest_of(of_row);
    if (std::isnan(largest)) return false;
    const float scale = scale_for(largest, traits_of(NumberFormat::e4m3).max);
    scales[static_cast<std::size_t>(row)] = scale;
    std::uint8_t* to = codes.data() + row * columns;
    for (const float w : of_row) *to++ = encode(NumberFormat::e4m3, w / scale);
  }
  return true;
}

bool quantize_int4(std::int64_t rows, std::int64_t columns, std::int64_t group, std::span<const float> weight,
                   std::span<std::uint8_t> packed, std::span<bf16> scales) {
  LH_ASSERT(group >= 2 && group % 2 == 0, format("groups of {}", group));
  const std::int64_t groups = int4_groups(columns, group), row_bytes = int4_row_bytes(columns);
  cpu::check_size(weight.size(), rows * columns, "weight");
  cpu::check_size(packed.size(), rows * row_bytes, "packed");
  cpu::check_size(scales.size(), rows * groups, "scales");
  std::fill_n(packed.begin(), rows * row_bytes, std::uint8_t{0});
  for (std::int64_t row = 0; row < rows; ++row) {
    std::uint8_t* const to = packed.data() + row * row_bytes;
    for (std::int64_t g = 0; g < groups; ++g) {
      const std::int64_t begin = g * group, end = std::min(columns, begin + group);
      const auto of_group =
          weight.subspan(static_cast<std::size_t>(row * columns + begin), static_cast<std::size_t>(end - begin));
      const float largest = largest_of(of_group);
      if (std::isnan(largest)) return false;
      const bf16 stored(scale_for(largest, 7.5F));
      scales[static_cast<std::size_t>(row * groups + g)] = stored;
      const auto scale = static_cast<float>(stored);
      for (std::int64_t i = begin; i < end; ++i) {
        const float level = std::nearbyint(of_group[static_cast<std::size_t>(i - begin)] / scale);
        const auto code = static_cast<unsigned>(std::clamp(level, -8.0F, 7.0F) + 8.0F);
        to[i / 2] = static_cast<std::uint8_t>(to[i / 2] | code << (i % 2 * 4));
      }
    }
  }
  return true;
}

}  // namespace longhaul
