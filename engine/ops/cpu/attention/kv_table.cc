#include "engine/ops/attention/kv_table.h"

#include <cstring>
#include <vector>

#include "base/text/text.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/device_ops.h"

namespace longhaul {

void kv_append(const ComputeContext& context, const KvAppendShape& s, ConstView qkv,
               std::span<const std::int32_t> sequences, std::span<const std::int32_t> positions,
               std::span<const KvPlace> places, View q) {
  if (const DeviceOps* device = context.device_ops()) return device->kv_append(s, qkv, sequences, positions, places, q);
  const std::int64_t width = s.q_size + 2 * s.kv_size, element = dtype_bytes(qkv.dtype());
  cpu::check_size(sequences.size(), s.tokens, "sequences"), cpu::check_size(positions.size(), s.tokens, "positions");
  LH_ASSERT(qkv.size() >= s.tokens * width && q.size() >= s.tokens * s.q_size && q.dtype() == qkv.dtype(),
            format("{} tokens of {} + 2 * {} in {}", s.tokens, s.q_size, s.kv_size, qkv.shape().text()));
  const auto* from = static_cast<const std::byte*>(qkv.data());
  auto* to = static_cast<std::byte*>(q.data());
  const auto q_bytes = static_cast<std::size_t>(s.q_size * element);
  const auto kv_bytes = static_cast<std::size_t>(s.kv_size * element);
  for (std::size_t t = 0; t < sequences.size(); ++t, from += width * element, to += q_bytes) {
    const KvPlace& place = places[static_cast<std::size_t>(sequences[t])];
    const std::size_t at = static_cast<std::size_t>(positions[t]) * kv_bytes;
    std::memcpy(to, from, q_bytes);
    std::memcpy(place.keys + at, from + q_bytes, kv_bytes);
    std::memcpy(place.values + at, from + q_bytes + kv_bytes, kv_bytes);
  }
}

void attention_decode_table(const ComputeContext& context, const AttentionDecodeShape& s, ConstView q,
                            std::span<const KvPlace> places, std::int64_t longest, View out) {
  if (const DeviceOps* device = context.device_ops()) return device->attention_decode_table(s, q, places, longest, out);
  std::vector<KvCacheView> caches;
  for (const KvPlace& place : places) {
    LH_ASSERT(place.length <= longest, format("{} of at most {} tokens", place.length, longest));
    const Shape shape{place.length, s.kv_heads, s.head_dim};
    caches.push_back(
        {ConstView(place.keys, q.dtype(), shape), ConstView(place.values, q.dtype(), shape), place.length});
  }
  attention_decode(context, s, q, caches, out);
}

void embedding_int8(const ComputeContext& context, LinearShape s, std::span<const std::int32_t> ids, ConstView q,
                    std::span<const float> scales, View out) {
  cpu::check_size(ids.size(), s.tokens, "ids"), cpu::check_size(scales.size(), s.out, "scales");
  if (const DeviceOps* device = context.device_ops()) return device->embedding_int8(s, ids, q, scales, out);
  const auto* table = cpu::elements<std::int8_t>(q, s.in * s.out, "q");
  cpu::with_float_type(out.dtype(), "embedding_int8", [&](auto type) {
    using T = decltype(type);
    T* to = cpu::elements<T>(out, s.tokens * s.in, "out");
    for (const std::int32_t id : ids)
      for (std::int64_t i = 0; i < s.in; ++i)
        *to++ = static_cast<T>(scales[static_cast<std::size_t>(id)] * static_cast<float>(table[id * s.in + i]));
  });
}

}  // namespace longhaul
