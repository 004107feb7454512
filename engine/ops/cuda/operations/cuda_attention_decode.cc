// Attention of token-by-token generation.
#include <cmath>
#include <vector>

#include "base/text/text.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cuda/attention/kv_table_kernels.h"
#include "engine/ops/cuda/linear/decode_kernels.h"
#include "engine/ops/cuda/operations/cuda_attention_ops.h"

namespace longhaul::cuda {

using cpu::check_size;
using cpu::elements;
using cpu::with_float_type;

void CudaAttentionOps::attention_decode(const AttentionDecodeShape& s, ConstView q, std::span<const KvCacheView> caches,
                                        View out) const {
  LH_ASSERT(s.kv_heads > 0 && s.heads % s.kv_heads == 0, format("{} heads, {} kv", s.heads, s.kv_heads));
  LH_ASSERT(s.window >= 0, format("window {}", s.window));
  if (caches.empty()) return;
  const auto sequences = static_cast<Index>(caches.size());
  const Index stride = s.kv_heads * s.head_dim, n = sequences * s.heads * s.head_dim;
  with_float_type(q.dtype(), "attention_decode", [&](auto of_q) {
    with_float_type(caches.front().k.dtype(), "attention_decode cache", [&](auto of_cache) {
      using T = decltype(of_q);
      using C = decltype(of_cache);
      std::vector<DecodeCache<C>> places;
      Index longest = 0;
      for (const KvCacheView& cache : caches) {
        const Index size = cache.length * stride;
        LH_ASSERT(cache.length >= 1, "an empty cache");
        places.push_back({elements<C>(cache.k, size, "keys"), elements<C>(cache.v, size, "values"), cache.length});
        longest = std::max(longest, cache.length);
      }
      const auto bytes = static_cast<Index>(places.size() * sizeof(DecodeCache<C>));
      std::byte* const on_device = work_.scratch(1, bytes);
      work_.device.copy_in(places.data(), on_device, bytes);
      Decode<T, C> p{};
      p.sequences = sequences, p.heads = s.heads, p.kv_heads = s.kv_heads, p.head_dim = s.head_dim;
      p.window = s.window, p.longest = s.window > 0 ? std::min(s.window, longest) : longest;
      p.scale = s.scale != 0.0F ? s.scale : 1.0F / std::sqrt(static_cast<float>(s.head_dim));
      p.q = elements<T>(q, n, "q"), p.out = elements<T>(out, n, "out");
      p.caches = reinterpret_cast<const DecodeCache<C>*>(on_device);
      p.parts = reinterpret_cast<float*>(
          work_.scratch(0, 4 * decode_parts_floats(sequences, s.heads, s.head_dim, p.longest)));
      cuda::attention_decode(work_.stream, p);
    });
  });
}

void CudaAttentionOps::attention_merge(const AttentionMergeShape& s, ConstView part, ConstFloats part_lse, Floats out,
                                       Floats lse) const {
  const Index rows = s.batch * s.seq * s.heads;
  check_size(out.size(), rows * s.head_dim, "out");
  check_size(lse.size(), rows, "lse");
  check_size(part_lse.size(), rows, "part_lse");
  with_float_type(part.dtype(), "attention_merge", [&](auto type) {
    using T = decltype(type);
    cuda::attention_merge(work_.stream,
                          Merge<T>{s.batch, s.seq, s.heads, s.head_dim, elements<T>(part, rows * s.head_dim, "part"),
                                   part_lse.data(), out.data(), lse.data()});
  });
}

void CudaAttentionOps::kv_append(const KvAppendShape& s, ConstView qkv, Ids sequences, Ids positions,
                                 std::span<const KvPlace> places, View q) const {
  check_size(sequences.size(), s.tokens, "sequences"), check_size(positions.size(), s.tokens, "positions");
  with_float_type(qkv.dtype(), "kv_append", [&](auto type) {
    using T = decltype(type);
    cuda::kv_append(
        work_.stream,
        KvAppend<T>{s.tokens, s.q_size, s.kv_size, elements<T>(qkv, s.tokens * (s.q_size + 2 * s.kv_size), "qkv"),
                    sequences.data(), positions.data(), places.data(), elements<T>(q, s.tokens * s.q_size, "q")});
  });
}

// The kernel reads the table where it lies: it has to look as the one that attention_decode makes.
void CudaAttentionOps::attention_decode_table(const AttentionDecodeShape& s, ConstView q,
                                              std::span<const KvPlace> places, std::int64_t longest, View out) const {
  LH_ASSERT(s.kv_heads > 0 && s.heads % s.kv_heads == 0, format("{} heads, {} kv", s.heads, s.kv_heads));
  LH_ASSERT(s.window >= 0, format("window {}", s.window));
  LH_ASSERT(longest >= 1, "empty caches");
  if (places.empty()) return;
  const auto sequences = static_cast<Index>(places.size());
  const Index n = sequences * s.heads * s.head_dim;
  with_float_type(q.dtype(), "attention_decode_table", [&](auto type) {
    using T = decltype(type);
    using Place = DecodeCache<T>;
    static_assert(sizeof(Place) == sizeof(KvPlace) && offsetof(Place, k) == offsetof(KvPlace, keys) &&
                  offsetof(Place, v) == offsetof(KvPlace, values) &&
                  offsetof(Place, length) == offsetof(KvPlace, length));
    Decode<T, T> p{};
    p.sequences = sequences, p.heads = s.heads, p.kv_heads = s.kv_heads, p.head_dim = s.head_dim;
    p.window = s.window, p.longest = s.window > 0 ? std::min(s.window, longest) : longest;
    p.scale = s.scale != 0.0F ? s.scale : 1.0F / std::sqrt(static_cast<float>(s.head_dim));
    p.q = elements<T>(q, n, "q"), p.out = elements<T>(out, n, "out");
    p.caches = reinterpret_cast<const Place*>(places.data());
    p.parts =
        reinterpret_cast<float*>(work_.scratch(0, 4 * decode_parts_floats(sequences, s.heads, s.head_dim, p.longest)));
    cuda::attention_decode(work_.stream, p);
  });
}

}  // namespace longhaul::cuda
