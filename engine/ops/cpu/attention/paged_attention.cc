#include "engine/ops/attention/paged_attention.h"

#include <algorithm>
#include <cmath>

#include "base/text/text.h"
#include "engine/core/tensor/parallel_for.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cpu/simd/kernels.h"
#include "engine/ops/device_ops.h"

namespace longhaul {
namespace {

using cpu::Index;
using Ids = std::span<const std::int32_t>;

void check_shape(const PagedShape& s, Ids table, Ids lengths) {
  LH_ASSERT(s.kv_heads > 0 && s.heads % s.kv_heads == 0, format("{} heads, {} kv", s.heads, s.kv_heads));
  LH_ASSERT(s.tokens >= 1 && s.tokens <= kPagedTokensMax, format("{} new tokens of a sequence", s.tokens));
  cpu::check_size(table.size(), s.sequences * s.pages_each, "table");
  LH_ASSERT(s.window >= 0, format("window {}", s.window));
  cpu::check_size(lengths.size(), s.sequences, "lengths");
  for (const std::int32_t length : lengths.first(static_cast<std::size_t>(s.sequences)))
    LH_ASSERT(length >= 0 && length <= s.longest_or_all() && length <= s.pages_each * s.page_tokens,
              format("{} keys in {} pages of {}, at most {}", length, s.pages_each, s.page_tokens, s.longest_or_all()));
}

// The row of the pool where a sequence's key lies.
Index row_of(const PagedShape& s, Ids table, Index sequence, Index key) {
  const std::int32_t page = table[static_cast<std::size_t>(sequence * s.pages_each + key / s.page_tokens)];
  LH_ASSERT(page >= 0 && page < s.pages, format("page {} of {}, sequence {}", page, s.pages, sequence));
  return page * s.page_tokens + key % s.page_tokens;
}

// One key-value head of a sequence, its keys one behind the other.
template <class C>
void gather(const PagedShape& s, Ids table, Index sequence, Index kv_head, Index length, const C* pool, C* to) {
  const Index d = s.head_dim, stride = s.kv_heads * d;
  for (Index key = 0; key < length; ++key)
    std::copy_n(pool + row_of(s, table, sequence, key) * stride + kv_head * d, d, to + key * d);
}

// Floats of scratch; keys: of keys and as many of values. All are multiples of 16.
struct Scratch {
  Index q, scores, keys;
  Index whole() const { return 2 * q + scores + 2 * keys; }
};
Index to_lines(Index n) {
  return (n + 15) / 16 * 16;
}

// Gathered first: the copy costs less than the products, and the bits are those of a contiguous cache.
template <class T, class C>
void decode(const ComputeContext& context, const PagedShape& s, const T* q, const C* keys, const C* values, Ids table,
            Ids lengths, T* out) {
  const Index d = s.head_dim, dp = (d + 15) / 16 * 16, group = s.heads / s.kv_heads;
  const Index longest = *std::max_element(lengths.begin(), lengths.begin() + s.sequences);
  const Scratch size{group * dp, to_lines(group * longest), to_lines(longest * d)};
  auto* const scratch = reinterpret_cast<float*>(context.scratch(1, context.threads() * size.whole() * 4));
  const float factor = s.scale != 0.0F ? s.scale : 1.0F / std::sqrt(static_cast<float>(d));
  parallel_chunks(context, s.sequences * s.kv_heads, 1, [&](Index task, Index) {
    const Index sequence = task / s.kv_heads, kv_head = task % s.kv_heads;
    const Index length = lengths[static_cast<std::size_t>(sequence)];
    float* const qs = scratch + parallel_thread_index() * size.whole();
    float *const result = qs + size.q, *const scores = result + size.q;
    C *const k = reinterpret_cast<C*>(scores + size.scores), *const v = k + size.keys;
    gather(s, table, sequence, kv_head, length, keys, k);
    gather(s, table, sequence, kv_head, length, values, v);
    for (Index t = 0; t < s.tokens; ++t) {
      const Index seen = length - s.tokens + t + 1, at = ((sequence * s.tokens + t) * s.heads + kv_head * group) * d;
      if (seen <= 0) {
        std::fill_n(out + at, group * d, T(0.0F));
        continue;
      }
      std::fill(qs, result, 0.0F);
      for (Index h = 0; h < group; ++h)
        for (Index i = 0; i < d; ++i) qs[h * dp + i] = static_cast<float>(q[at + h * d + i]) * factor;
      const Index looked_at = s.window > 0 ? std::min(s.window, seen) : seen, first = (seen - looked_at) * d;
      cpu::kernels(context).of<C>().attention_decode(qs, group, k + first, v + first, looked_at, d, d, dp, result,
                                                     scores);
      for (Index h = 0; h < group; ++h)
        for (Index i = 0; i < d; ++i) out[at + h * d + i] = T(result[h * dp + i]);
    }
  });
}

}  // namespace

void attention_decode_paged(const ComputeContext& context, const PagedShape& s, ConstView q, ConstView keys,
                            ConstView values, Ids table, Ids lengths, View out) {
  if (s.sequences == 0) return;
  if (const DeviceOps* device = context.device_ops())
    return device->attention_decode_paged(s, q, keys, values, table, lengths, out);
  check_shape(s, table, lengths);
  const Index n = s.sequences * s.tokens * s.heads * s.head_dim;
  const Index pool = s.pages * s.page_tokens * s.kv_heads * s.head_dim;
  cpu::with_float_type(q.dtype(), "attention_decode_paged", [&](auto of_q) {
    cpu::with_float_type(keys.dtype(), "attention_decode_paged keys", [&](auto of_pool) {
      using T = decltype(of_q);
      using C = decltype(of_pool);
      decode<T, C>(context, s, cpu::elements<T>(q, n, "q"), cpu::elements<C>(keys, pool, "keys"),
                   cpu::elements<C>(values, pool, "values"), table, lengths, cpu::elements<T>(out, n, "out"));
    });
  });
}

void paged_append(const ComputeContext& context, const PagedShape& s, ConstView k, ConstView v, Ids table, Ids lengths,
                  View keys, View values) {
  if (s.sequences == 0) return;
  if (const DeviceOps* device = context.device_ops())
    return device->paged_append(s, k, v, table, lengths, keys, values);
  check_shape(s, table, lengths);
  const Index row = s.kv_heads * s.head_dim, n = s.sequences * s.tokens * row, pool = s.pages * s.page_tokens * row;
  cpu::with_float_type(k.dtype(), "paged_append", [&](auto of_new) {
    cpu::with_float_type(keys.dtype(), "paged_append keys", [&](auto of_pool) {
      using T = decltype(of_new);
      using C = decltype(of_pool);
      const T *const from_k = cpu::elements<T>(k, n, "k"), *const from_v = cpu::elements<T>(v, n, "v");
      C *const to_k = cpu::elements<C>(keys, pool, "keys"), *const to_v = cpu::elements<C>(values, pool, "values");
      for (Index i = 0; i < s.sequences * s.tokens; ++i) {
        const Index sequence = i / s.tokens, t = i % s.tokens;
        const Index position = lengths[static_cast<std::size_t>(sequence)] - s.tokens + t;
        if (position < 0) continue;
        const Index to = row_of(s, table, sequence, position) * row;
        for (Index j = 0; j < row; ++j) {
          to_k[to + j] = C(static_cast<float>(from_k[i * row + j]));
          to_v[to + j] = C(static_cast<float>(from_v[i * row + j]));
        }
      }
    });
  });
}

}  // namespace longhaul
