#include "engine/ops/loss/digest.h"

#include "engine/core/tensor/parallel_for.h"
#include "engine/core/tensor/word_digest.h"
#include "engine/ops/device_ops.h"

namespace longhaul {

void digest_parts(const ComputeContext& context, std::span<const float> x, std::span<std::uint64_t> out) {
  if (const DeviceOps* device = context.device_ops()) return device->digest_parts(x, out);
  parallel_for(context, static_cast<std::int64_t>(out.size()), 1, [&](std::int64_t first, std::int64_t last) {
    for (auto p = static_cast<std::size_t>(first); p < static_cast<std::size_t>(last); ++p) {
      const std::size_t begin = x.size() * p / out.size(), end = x.size() * (p + 1) / out.size();
      out[p] = word_digest(std::as_bytes(x.subspan(begin, end - begin)));
    }
  });
}

}  // namespace longhaul
