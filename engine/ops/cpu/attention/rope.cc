#include "engine/ops/attention/rope.h"

#include <cmath>

#include "base/text/text.h"
#include "engine/core/tensor/parallel_for.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cpu/simd/kernels.h"
#include "engine/ops/device_ops.h"

namespace longhaul {

std::vector<float> rope_frequencies(std::int64_t head_dim, double theta, const RopeScaling& scaling) {
  LH_ASSERT(head_dim > 0 && head_dim % 2 == 0, format("head_dim = {} must be even", head_dim));
  std::vector<float> frequencies(static_cast<std::size_t>(head_dim / 2));
  constexpr double two_pi = 6.283185307179586476925286766559;
  for (std::size_t j = 0; j < frequencies.size(); ++j) {
    double f = 1.0 / std::pow(theta, 2.0 * static_cast<double>(j) / static_cast<double>(head_dim));
    if (scaling.kind == RopeScaling::Kind::linear) {
      f /= scaling.factor;
    } else if (scaling.kind == RopeScaling::Kind::llama3) {
      const double old_positions = static_cast<double>(scaling.original_max_position);
      const double wave_length = two_pi / f;
      if (wave_length > old_positions / scaling.low_freq_factor) {
        f /= scaling.factor;
      } else if (wave_length >= old_positions / scaling.high_freq_factor) {
        const double blend = (old_positions / wave_length - scaling.low_freq_factor) /
                             (scaling.high_freq_factor - scaling.low_freq_factor);
        f = (1.0 - blend) * f / scaling.factor + blend * f;
      }
    }
    frequencies[j] = static_cast<float>(f);
  }
  return frequencies;
}

RopeTable make_rope_table(std::int64_t positions, std::int64_t head_dim, double theta, const RopeScaling& scaling) {
  const std::vector<float> frequencies = rope_frequencies(head_dim, theta, scaling);
  RopeTable table{positions, head_dim / 2, {}, {}};
  table.cosines.reserve(static_cast<std::size_t>(positions * table.half_dim));
  table.sines.reserve(static_cast<std::size_t>(positions * table.half_dim));
  for (std::int64_t p = 0; p < positions; ++p) {
    for (float f : frequencies) {
      const float angle = static_cast<float>(p) * f;
      table.cosines.push_back(static_cast<float>(std::cos(static_cast<double>(angle))));
      table.sines.push_back(static_cast<float>(std::sin(static_cast<double>(angle))));
    }
  }
  return table;
}

void rope_apply(const ComputeContext& context, RopeShape shape, const RopeTable& table,
                std::span<const std::int32_t> positions, std::int64_t seq, View x, bool inverse) {
  if (const DeviceOps* device = context.device_ops())
    return device->rope_apply(shape, table, positions, seq, x, inverse);
  using cpu::Index;
  const Index row = shape.heads * shape.head_dim, stride = shape.row_stride == 0 ? row : shape.row_stride;
  LH_ASSERT(table.half_dim * 2 == shape.head_dim,
            format("table of {}, head_dim {}", table.half_dim * 2, shape.head_dim));
  LH_ASSERT(stride >= row, format("row_stride {} < {}", stride, row));
  if (positions.empty()) {
    LH_ASSERT(seq > 0 && seq <= table.positions, format("seq {} in a table of {} positions", seq, table.positions));
  } else {
    cpu::check_size(positions.size(), shape.tokens, "positions");
  }
  if (shape.tokens == 0) return;
  cpu::with_float_type(x.dtype(), "rope", [&](auto type) {
    using T = decltype(type);
    T* px = cpu::elements<T>(x, (shape.tokens - 1) * stride + row, "x");
    const auto rotate = cpu::kernels(context).of<T>().rope;
    parallel_for(context, shape.tokens, 32, [&](Index begin, Index end) {
      for (Index t = begin; t < end; ++t) {
        const Index p = positions.empty() ? t % seq : positions[static_cast<std::size_t>(t)];
        LH_ASSERT(p >= 0 && p < table.positions, format("position {} of token {}, table of {}", p, t, table.positions));
        for (Index head = 0; head < shape.heads; ++head) {
          rotate(px + t * stride + head * shape.head_dim, table.cosines.data() + p * table.half_dim,
                 table.sines.data() + p * table.half_dim, table.half_dim, inverse ? -1.0F : 1.0F);
        }
      }
    });
  });
}

}  // namespace longhaul
