#include "engine/ops/attention/attention.h"

#include <cmath>

#include "base/text/text.h"
#include "engine/core/tensor/parallel_for.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cpu/simd/kernels.h"
#include "engine/ops/device_ops.h"

namespace longhaul {
namespace {

using cpu::AttentionArgs;
using cpu::Index;

float scale_of(float given, Index head_dim) {
  return given != 0.0F ? given : 1.0F / std::sqrt(static_cast<float>(head_dim));
}

AttentionArgs args_of(const AttentionShape& s) {
  const std::string text = format("attention batch={} seq={} kv_seq={} heads={} kv_heads={} head_dim={}", s.batch,
                                  s.seq, s.kv_seq, s.heads, s.kv_heads, s.head_dim);
  LH_ASSERT(s.batch >= 0 && s.seq >= 1 && s.kv_heads >= 1 && s.head_dim >= 1, text);
  LH_ASSERT(s.window == 0 || (s.window > 0 && s.causal), format("{}, window={}", text, s.window));
  LH_ASSERT(s.heads % s.kv_heads == 0 && (s.kv_seq == 0 || s.kv_seq >= s.seq || !s.causal), text);
  AttentionArgs a{};
  a.seq = s.seq;
  a.kv_seq = s.kv_seq == 0 ? s.seq : s.kv_seq;
  a.heads = s.heads;
  a.kv_heads = s.kv_heads;
  a.head_dim = s.head_dim;
  a.head_dim_padded = (s.head_dim + 15) / 16 * 16;
  a.q_stride = s.q_stride == 0 ? s.heads * s.head_dim : s.q_stride;
  a.kv_stride = s.kv_stride == 0 ? s.kv_heads * s.head_dim : s.kv_stride;
  a.out_stride = s.out_stride == 0 ? s.heads * s.head_dim : s.out_stride;
  a.scale = scale_of(s.scale, s.head_dim);
  a.causal = s.causal;
  a.window = s.window < a.kv_seq ? s.window : 0;
  LH_ASSERT(a.q_stride >= s.heads * s.head_dim && a.out_stride >= s.heads * s.head_dim, text);
  LH_ASSERT(a.kv_stride >= s.kv_heads * s.head_dim, text);
  return a;
}

Index extent(Index rows, Index stride, Index columns) {
  return rows == 0 ? 0 : (rows - 1) * stride + columns;
}

// Of all sequences' keys.
Index kv_batch_stride(const AttentionShape& s, const AttentionArgs& a) {
  return s.kv_batch_stride == 0 ? a.kv_seq * a.kv_stride : s.kv_batch_stride;
}
Index kv_extent(const AttentionShape& s, const AttentionArgs& a) {
  if (s.batch == 0) return 0;
  return (s.batch - 1) * kv_batch_stride(s, a) + extent(a.kv_seq, a.kv_stride, s.kv_heads * s.head_dim);
}

// Checked pointers of a pass over q, k, v, out.
template <class T>
struct Pointers {
  const T *q, *k, *v;
  Pointers(const AttentionShape& s, const AttentionArgs& a, ConstView qv, ConstView kv, ConstView vv)
      : q(cpu::elements<T>(qv, extent(s.batch * a.seq, a.q_stride, s.heads * s.head_dim), "q")),
        k(cpu::elements<T>(kv, kv_extent(s, a), "k")),
        v(cpu::elements<T>(vv, kv_extent(s, a), "v")) {}
};

AttentionArgs with_document(AttentionArgs a, std::span<const std::int32_t> first_key, Index batch) {
  a.first_key = first_key.empty() ? nullptr : first_key.data() + batch * a.seq;
  return a;
}

void check_first_key(const AttentionShape& s, const AttentionArgs& a, std::span<const std::int32_t> first_key) {
  if (first_key.empty()) return;
  cpu::check_size(first_key.size(), s.batch * s.seq, "first_key");
  for (Index i = 0; i < s.batch * s.seq; ++i) {
    const Index row = i % s.seq, first = first_key[static_cast<std::size_t>(i)];
    LH_ASSERT(first >= 0 && first <= (s.causal ? a.kv_seq - a.seq + row : a.kv_seq),
              format("first_key {} of query {}", first, row));
    LH_ASSERT(row == 0 || first >= first_key[static_cast<std::size_t>(i - 1)],
              format("first_key falls at query {}", row));
  }
}

// Scratch: packed keys and values of all heads, then a private piece per thread.
template <class T>
void forward(const ComputeContext& context, const AttentionShape& s, const AttentionArgs& a, const Pointers<T>& p,
             T* out, float* lse, std::span<const std::int32_t> first_key) {
  const auto& kernels = cpu::kernels(context).of<T>();
  const Index kv_tiles = (a.kv_seq + cpu::kKeyTile - 1) / cpu::kKeyTile, kv_padded = kv_tiles * cpu::kKeyTile;
  const Index pairs = s.batch * s.kv_heads, group = s.heads / s.kv_heads;
  const Index kt_size = kv_padded * a.head_dim_padded, vr_size = kv_padded * a.head_dim_padded;
  const Index per_thread = cpu::attention_forward_scratch(a);
  auto* kt = reinterpret_cast<float*>(
      context.scratch(1, (pairs * (kt_size + vr_size) + 64 + context.threads() * per_thread) * 4));
  float* vr = kt + pairs * kt_size;
  float* scratch = vr + pairs * vr_size;
  parallel_chunks(context, pairs, 1, [&](Index pair, Index) {
    const Index at = pair / s.kv_heads * kv_batch_stride(s, a) + pair % s.kv_heads * a.head_dim;
    kernels.attention_pack(a, p.k + at, p.v + at, 0, a.kv_seq, kt + pair * kt_size, vr + pair * vr_size);
  });
  const Index query_tiles = (a.seq + cpu::kQueryTile - 1) / cpu::kQueryTile;
  parallel_chunks(context, s.batch * s.heads * query_tiles, 1, [&](Index task, Index) {
    const Index tile = query_tiles - 1 - task % query_tiles;  // the long ones first
    const Index head = task / query_tiles % s.heads, batch = task / query_tiles / s.heads;
    const Index pair = batch * s.kv_heads + head / group;
    const Index begin = tile * cpu::kQueryTile, end = std::min(a.seq, begin + cpu::kQueryTile);
    kernels.attention_forward(with_document(a, first_key, batch), p.q + batch * a.seq * a.q_stride + head * a.head_dim,
                              kt + pair * kt_size, vr + pair * vr_size,
                              out + batch * a.seq * a.out_stride + head * a.head_dim,
                              lse == nullptr ? nullptr : lse + (batch * s.heads + head) * a.seq, begin, end,
                              scratch + parallel_thread_index() * per_thread);
  });
}

}  // namespace

void attention_forward(const ComputeContext& context, const AttentionShape& shape, ConstView q, ConstView k,
                       ConstView v, View out, std::span<float> lse, std::span<const std::int32_t> first_key) {
  if (const DeviceOps* device = context.device_ops())
    return device->attention_forward(shape, q, k, v, out, lse, first_key);
  const AttentionArgs a = args_of(shape);
  check_first_key(shape, a, first_key);
  if (!lse.empty()) cpu::check_size(lse.size(), shape.batch * shape.heads * shape.seq, "lse");
  cpu::with_float_type(q.dtype(), "attention", [&](auto type) {
    using T = decltype(type);
    T* po = cpu::elements<T>(out, extent(shape.batch * a.seq, a.out_stride, shape.heads * shape.head_dim), "out");
    forward<T>(context, shape, a, Pointers<T>(shape, a, q, k, v), po, lse.empty() ? nullptr : lse.data(), first_key);
  });
}

void attention_backward(const ComputeContext& context, const AttentionShape& shape, ConstView dout, ConstView q,
                        ConstView k, ConstView v, ConstView out, std::span<const float> lse, View dq, View dk, View dv,
                        std::span<const std::int32_t> first_key) {
  if (const DeviceOps* device = context.device_ops())
    return device->attention_backward(shape, dout, q, k, v, out, lse, dq, dk, dv, first_key);
  const AttentionArgs a = args_of(shape);
  check_first_key(shape, a, first_key);
  cpu::check_size(lse.size(), shape.batch * shape.heads * shape.seq, "lse");
  cpu::with_float_type(q.dtype(), "attention", [&](auto type) {
    using T = decltype(type);
    const Pointers<T> p(shape, a, q, k, v);
    const Index out_extent = extent(shape.batch * a.seq, a.out_stride, shape.heads * shape.head_dim);
    const T* pdo = cpu::elements<T>(dout, out_extent, "dout");
    const T* po = cpu::elements<T>(out, out_extent, "out");
    T* pdq = cpu::elements<T>(dq, extent(shape.batch * a.seq, a.q_stride, shape.heads * shape.head_dim), "dq");
    T* pdk = cpu::elements<T>(dk, kv_extent(shape, a), "dk");
    T* pdv = cpu::elements<T>(dv, kv_extent(shape, a), "dv");
    const Index per_thread = cpu::attention_backward_scratch(a), group = shape.heads / shape.kv_heads;
    auto* scratch = reinterpret_cast<float*>(context.scratch(1, context.threads() * per_thread * 4));
    const auto& kernels = cpu::kernels(context).of<T>();
    parallel_chunks(context, shape.batch * shape.kv_heads, 1, [&](Index pair, Index) {
      const Index batch = pair / shape.kv_heads, kv_head = pair % shape.kv_heads;
      const Index at_q = batch * a.seq * a.q_stride + kv_head * group * a.head_dim;
      const Index at_kv = batch * kv_batch_stride(shape, a) + kv_head * a.head_dim;
      const Index at_out = batch * a.seq * a.out_stride + kv_head * group * a.head_dim;
      kernels.attention_backward(with_document(a, first_key, batch), pdo + at_out, p.q + at_q, p.k + at_kv, p.v + at_kv,
                                 po + at_out, lse.data() + (batch * shape.heads + kv_head * group) * a.seq, pdq + at_q,
                                 pdk + at_kv, pdv + at_kv, scratch + parallel_thread_index() * per_thread);
    });
  });
}

void attention_decode(const ComputeContext& context, const AttentionDecodeShape& shape, ConstView q,
                      std::span<const KvCacheView> caches, View out) {
  if (const DeviceOps* device = context.device_ops()) return device->attention_decode(shape, q, caches, out);
  const Index d = shape.head_dim, dp = (d + 15) / 16 * 16, group = shape.heads / shape.kv_heads;
  LH_ASSERT(shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0,
            format("{} heads, {} kv", shape.heads, shape.kv_heads));
  const Index sequences = static_cast<Index>(caches.size()), stride = shape.kv_heads * d;
  Index longest = 0;
  LH_ASSERT(shape.window >= 0, format("window {}", shape.window));
  for (const KvCacheView& cache : caches) {
    LH_ASSERT(cache.length >= 1 && cache.k.size() >= cache.length * stride && cache.v.size() >= cache.length * stride,
              format("cache of length {} in {}", cache.length, cache.k.shape().text()));
    LH_ASSERT(cache.k.dtype() == cache.v.dtype(), "keys and values of one type");
    longest = std::max(longest, cache.length);
  }
  const float factor = scale_of(shape.scale, d);
  const Index per_thread = (2 * group * dp + group * longest + 15) / 16 * 16;
  auto* scratch = reinterpret_cast<float*>(context.scratch(1, context.threads() * per_thread * 4));
  cpu::with_float_type(q.dtype(), "attention_decode", [&](auto type) {
    using T = decltype(type);
    const T* pq = cpu::elements<T>(q, sequences * shape.heads * d, "q");
    T* po = cpu::elements<T>(out, sequences * shape.heads * d, "out");
    parallel_chunks(context, sequences * shape.kv_heads, 1, [&](Index task, Index) {
      const Index sequence = task / shape.kv_heads, kv_head = task % shape.kv_heads;
      const KvCacheView& cache = caches[static_cast<std::size_t>(sequence)];
      const Index seen = shape.window > 0 ? std::min(shape.window, cache.length) : cache.length;
      const Index first = (cache.length - seen) * stride + kv_head * d;
      float* qs = scratch + parallel_thread_index() * per_thread;
      float* result = qs + group * dp;
      const Index at = (sequence * shape.heads + kv_head * group) * d;
      std::fill(qs, result, 0.0F);
      for (Index h = 0; h < group; ++h) {
        for (Index i = 0; i < d; ++i) qs[h * dp + i] = static_cast<float>(pq[at + h * d + i]) * factor;
      }
      cpu::with_float_type(cache.k.dtype(), "attention_decode cache", [&](auto cache_type) {
        using C = decltype(cache_type);
        cpu::kernels(context).of<C>().attention_decode(qs, group, cache.k.as<C>() + first, cache.v.as<C>() + first,
                                                       seen, stride, d, dp, result, result + group * dp);
      });
      for (Index h = 0; h < group; ++h) {
        for (Index i = 0; i < d; ++i) po[at + h * d + i] = T(result[h * dp + i]);
      }
    });
  });
}

}  // namespace longhaul
