#include <cmath>

#include "engine/core/tensor/parallel_for.h"
#include "engine/ops/attention/attention.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/device_ops.h"

namespace longhaul {

void attention_merge(const ComputeContext& context, const AttentionMergeShape& shape, ConstView part,
                     std::span<const float> part_lse, std::span<float> out, std::span<float> lse) {
  if (const DeviceOps* device = context.device_ops()) return device->attention_merge(shape, part, part_lse, out, lse);
  const std::int64_t d = shape.head_dim, heads = shape.heads, rows = shape.batch * shape.seq;
  cpu::check_size(out.size(), rows * heads * d, "out");
  cpu::check_size(lse.size(), rows * heads, "lse");
  cpu::check_size(part_lse.size(), rows * heads, "part_lse");
  cpu::with_float_type(part.dtype(), "attention_merge", [&](auto type) {
    using T = decltype(type);
    const T* from = cpu::elements<T>(part, rows * heads * d, "part");
    parallel_for(context, rows, 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        for (std::int64_t head = 0; head < heads; ++head) {
          const auto at = static_cast<std::size_t>((row / shape.seq * heads + head) * shape.seq + row % shape.seq);
          const float mine = lse[at], other = part_lse[at], top = std::max(mine, other);
          if (other == -INFINITY) continue;
          const float total = top + std::log(std::exp(mine - top) + std::exp(other - top));
          const float keep = std::exp(mine - total), take = std::exp(other - total);
          float* to = out.data() + (row * heads + head) * d;
          const T* piece = from + (row * heads + head) * d;
          for (std::int64_t i = 0; i < d; ++i)
            to[i] = (mine == -INFINITY ? 0.0F : to[i] * keep) + static_cast<float>(piece[i]) * take;
          lse[at] = total;
        }
      }
    });
  });
}

}  // namespace longhaul
