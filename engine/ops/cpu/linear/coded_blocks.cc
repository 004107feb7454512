#include "engine/ops/linear/coded_blocks.h"

#include <algorithm>

#include "base/text/text.h"
#include "engine/core/tensor/parallel_for.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/device_ops.h"

namespace longhaul {

void decode_blocks(const ComputeContext& context, const CodedBlocks& from, View out) {
  if (const DeviceOps* device = context.device_ops()) return device->decode_blocks(from, out);
  constexpr std::int64_t grain = 256;  // blocks
  const std::int64_t blocks = (from.elements + from.block - 1) / from.block;
  cpu::check_size(from.scales.size(), blocks, "scales");
  const auto* const codes =
      cpu::elements<std::uint8_t>(from.codes, (from.elements * from.bits + 7) / 8, "codes of blocks");
  const auto code_of = [&](std::int64_t i) -> std::size_t {
    if (from.bits == 8) return codes[i];
    return i % 2 == 0 ? codes[i / 2] >> 4 : codes[i / 2] & 15U;
  };
  cpu::with_float_type(out.dtype(), "decode_blocks", [&](auto type) {
    using T = decltype(type);
    T* const to = cpu::elements<T>(out, from.elements, "out");
    parallel_for(context, blocks, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block) {
        const float scale = from.scales[static_cast<std::size_t>(block)];
        const std::int64_t last = std::min(from.elements, (block + 1) * from.block);
        for (std::int64_t i = block * from.block; i < last; ++i) to[i] = T(from.values[code_of(i)] * scale);
      }
    });
  });
}

}  // namespace longhaul
