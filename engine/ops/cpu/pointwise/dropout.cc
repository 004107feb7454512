#include "engine/ops/pointwise/dropout.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/digest/philox.h"
#include "base/text/text.h"
#include "engine/core/tensor/parallel_for.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/device_ops.h"

namespace longhaul {
namespace {

using Index = std::int64_t;
constexpr Index kChannelsPerBlock = 8;                // 16 bits each
constexpr std::uint64_t kPlaces = 1U << 16;           // of the model, in the stream
constexpr std::uint64_t kDropoutStream = 1ULL << 63;  // apart from the seed's other uses

// Blocks of neighbouring channels of one token, with the rounds in step so that the compiler can run them side by side.
void keep_of_row(const Philox& random, std::uint64_t first_block, Index blocks, std::uint32_t threshold, float scale,
                 float* keep) {
  constexpr Index kLanes = 8;
  for (Index block = 0; block < blocks; block += kLanes) {
    std::uint32_t c0[kLanes], c1[kLanes], c2[kLanes], c3[kLanes];
    for (Index i = 0; i < kLanes; ++i) {
      const std::uint64_t counter = first_block + static_cast<std::uint64_t>(block + i);
      c0[i] = static_cast<std::uint32_t>(counter), c1[i] = static_cast<std::uint32_t>(counter >> 32);
      c2[i] = static_cast<std::uint32_t>(random.stream), c3[i] = static_cast<std::uint32_t>(random.stream >> 32);
    }
    auto key0 = static_cast<std::uint32_t>(random.seed), key1 = static_cast<std::uint32_t>(random.seed >> 32);
    for (int round = 0; round < 10; ++round) {  // as philox4x32
      for (Index i = 0; i < kLanes; ++i) {
        const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c0[i], p1 = std::uint64_t{0xCD9E8D57} * c2[i];
        c0[i] = static_cast<std::uint32_t>(p1 >> 32) ^ c1[i] ^ key0, c1[i] = static_cast<std::uint32_t>(p1);
        c2[i] = static_cast<std::uint32_t>(p0 >> 32) ^ c3[i] ^ key1, c3[i] = static_cast<std::uint32_t>(p0);
      }
      key0 += 0x9E3779B9, key1 += 0xBB67AE85;
    }
    for (Index i = 0; i < std::min(kLanes, blocks - block); ++i) {
      const std::uint32_t words[4] = {c0[i], c1[i], c2[i], c3[i]};
      for (int j = 0; j < kChannelsPerBlock; ++j) {
        const std::uint32_t draw = words[j / 2] >> (16 * (j % 2)) & 0xFFFFU;
        keep[(block + i) * kChannelsPerBlock + j] = draw >= threshold ? scale : 0.0F;
      }
    }
  }
}

// out = (mask / (1 - rate) - less) * x
void multiply_by_mask(const ComputeContext& context, const DropoutMask& mask, float less, Index rows, Index columns,
                      ConstView x, View out) {
  LH_ASSERT(mask.drops() && mask.rate < 1 && mask.place >= 0 && mask.place < static_cast<std::int64_t>(kPlaces),
            format("dropout of {} at place {}", mask.rate, mask.place));
  const auto threshold = static_cast<std::uint32_t>(std::lround(mask.rate * 65536.0));
  const float scale = 65536.0F / static_cast<float>(65536U - threshold);
  const auto blocks_of = [](Index channels) { return (channels + kChannelsPerBlock - 1) / kChannelsPerBlock; };
  const Index row_blocks = blocks_of(mask.row_columns > 0 ? mask.row_columns : columns);
  const Index skipped = mask.first_column / kChannelsPerBlock, lead = mask.first_column % kChannelsPerBlock;
  const Index blocks = blocks_of(lead + columns);
  cpu::with_float_type(out.dtype(), "dropout", [&](auto type) {
    using T = decltype(type);
    const T* in = cpu::elements<T>(x, rows * columns, "x");
    T* to = cpu::elements<T>(out, rows * columns, "out");
    parallel_for(context, rows, std::max<Index>(1, 4096 / columns), [&](Index begin, Index end) {
      std::vector<float> keep(static_cast<std::size_t>(blocks * kChannelsPerBlock));
      for (Index row = begin; row < end; ++row) {
        const Index token = mask.first + row, sample = mask.sample + token / mask.length;
        const Index position = mask.offset + token % mask.length;
        const Philox random{mask.seed, kDropoutStream + static_cast<std::uint64_t>(sample) * kPlaces +
                                           static_cast<std::uint64_t>(mask.place)};
        keep_of_row(random, static_cast<std::uint64_t>(position * row_blocks + skipped), blocks, threshold, scale,
                    keep.data());
        for (Index c = 0; c < columns; ++c)
          to[row * columns + c] =
              T(static_cast<float>(in[row * columns + c]) * (keep[static_cast<std::size_t>(lead + c)] - less));
      }
    });
  });
}

}  // namespace

void dropout(const ComputeContext& context, const DropoutMask& mask, std::int64_t rows, std::int64_t columns,
             ConstView x, View out) {
  if (const DeviceOps* device = context.device_ops()) return device->dropout(mask, rows, columns, x, out);
  multiply_by_mask(context, mask, 0, rows, columns, x, out);
}

void dropout_change(const ComputeContext& context, const DropoutMask& mask, std::int64_t rows, std::int64_t columns,
                    ConstView x, View out) {
  if (const DeviceOps* device = context.device_ops()) return device->dropout_change(mask, rows, columns, x, out);
  multiply_by_mask(context, mask, 1, rows, columns, x, out);
}

}  // namespace longhaul
