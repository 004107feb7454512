// CudaOps: generation over tables of caches.
#include <cmath>

#include "base/text/text.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cuda/attention/kv_table_kernels.h"
#include "engine/ops/cuda/cuda_ops.h"
#include "engine/ops/cuda/linear/decode_kernels.h"

namespace longhaul::cuda {

using cpu::check_size;
using cpu::elements;
using cpu::with_float_type;

void CudaOps::kv_append(const KvAppendShape& s, ConstView qkv, Ids sequences, Ids positions,
                        std::span<const KvPlace> places, View q) const {
  check_size(sequences.size(), s.tokens, "sequences"), check_size(positions.size(), s.tokens, "positions");
  with_float_type(qkv.dtype(), "kv_append", [&](auto type) {
    using T = decltype(type);
    cuda::kv_append(
        stream_,
        KvAppend<T>{s.tokens, s.q_size, s.kv_size, elements<T>(qkv, s.tokens * (s.q_size + 2 * s.kv_size), "qkv"),
                    sequences.data(), positions.data(), places.data(), elements<T>(q, s.tokens * s.q_size, "q")});
  });
}

// The kernel reads the table where it lies: it has to look as the one that attention_decode makes.
void CudaOps::attention_decode_table(const AttentionDecodeShape& s, ConstView q, std::span<const KvPlace> places,
                                     std::int64_t longest, View out) const {
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
    p.parts = reinterpret_cast<float*>(scratch(0, 4 * decode_parts_floats(sequences, s.heads, s.head_dim, p.longest)));
    cuda::attention_decode(stream_, p);
  });
}

void CudaOps::embedding_int8(LinearShape s, Ids ids, ConstView q, ConstFloats scales, View out) const {
  const auto* const table = elements<std::int8_t>(q, s.in * s.out, "q");
  with_float_type(out.dtype(), "embedding_int8", [&](auto type) {
    using T = decltype(type);
    cuda::embedding_int8(stream_, s.tokens, s.in, ids.data(), table, scales.data(),
                         elements<T>(out, s.tokens * s.in, "out"));
  });
}

}  // namespace longhaul::cuda
