#include "engine/quantize/int8.h"

#include <algorithm>
#include <cmath>

#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr float levels = 127;

}  // namespace

Result<Int8Matrix> quantize_int8(std::span<const float> weight, std::int64_t rows, std::int64_t columns) {
  LH_ASSERT(static_cast<std::int64_t>(weight.size()) == rows * columns,
            format("{} x {} of {}", rows, columns, weight.size()));
  Int8Matrix out{rows, columns, std::vector<std::int8_t>(weight.size()),
                 std::vector<float>(static_cast<std::size_t>(rows))};
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto in = weight.subspan(static_cast<std::size_t>(row * columns), static_cast<std::size_t>(columns));
    float largest = 0;
    for (const float w : in) {
      if (!std::isfinite(w)) return make_error(ErrorCode::corrupt, format("a weight in row {} is not finite", row));
      largest = std::max(largest, std::fabs(w));
    }
    // A subnormal row would make the scale 0: it counts as zeros.
    const float scale = largest / levels >= 1e-30F ? largest / levels : 1.0F;
    out.scales[static_cast<std::size_t>(row)] = scale;
    std::int8_t* q = out.q.data() + row * columns;
    for (const float w : in) *q++ = static_cast<std::int8_t>(std::clamp(std::nearbyint(w / scale), -levels, levels));
  }
  return out;
}

}  // namespace longhaul
