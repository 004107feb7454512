// CudaOps: token-by-token generation.
#include <cmath>
#include <vector>

#include "base/text/text.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cuda/cuda_ops.h"
#include "engine/ops/cuda/linear/decode_kernels.h"

namespace longhaul::cuda {

using cpu::check_size;
using cpu::elements;
using cpu::with_float_type;

void CudaOps::gemv(LinearShape s, ConstView x, ConstView weight, View y) const {
  LH_ASSERT(s.tokens <= product_tokens_max, format("{} tokens, at most {}", s.tokens, product_tokens_max));
  with_float_type(x.dtype(), "gemv", [&](auto of_x) {
    with_float_type(weight.dtype(), "gemv", [&](auto of_w) {
      with_float_type(y.dtype(), "gemv", [&](auto of_y) {
        using X = decltype(of_x);
        using W = decltype(of_w);
        using Y = decltype(of_y);
        few_rows_product(stream_, FewRows<X, W, Y>{s.tokens, s.in, s.out, elements<X>(x, s.tokens * s.in, "x"),
                                                   elements<W>(weight, s.in * s.out, "weight"), nullptr,
                                                   elements<Y>(y, s.tokens * s.out, "y")});
      });
    });
  });
}

// More rows than that: the weights in x's type, all of them, then a product.
void CudaOps::linear_forward_int8(LinearShape s, ConstView x, ConstView q, ConstFloats scales, View y) const {
  check_size(scales.size(), s.out, "scales");
  const auto* const weight = elements<std::int8_t>(q, s.in * s.out, "q");
  with_float_type(x.dtype(), "linear_forward_int8", [&](auto of_x) {
    using X = decltype(of_x);
    if (s.tokens > product_tokens_max) {
      auto* const wide = reinterpret_cast<X*>(scratch(0, s.in * s.out * static_cast<Index>(sizeof(X))));
      dequantize_rows(stream_, s.out, s.in, weight, scales.data(), wide);
      return linear_forward(s, x, ConstView(wide, Shape{s.out, s.in}), y, {});
    }
    with_float_type(y.dtype(), "linear_forward_int8", [&](auto of_y) {
      using Y = decltype(of_y);
      few_rows_product(stream_,
                       FewRows<X, std::int8_t, Y>{s.tokens, s.in, s.out, elements<X>(x, s.tokens * s.in, "x"), weight,
                                                  scales.data(), elements<Y>(y, s.tokens * s.out, "y")});
    });
  });
}

void CudaOps::attention_decode(const AttentionDecodeShape& s, ConstView q, std::span<const KvCacheView> caches,
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
      std::byte* const on_device = scratch(1, bytes);
      device_.copy_in(places.data(), on_device, bytes);
      Decode<T, C> p{};
      p.sequences = sequences, p.heads = s.heads, p.kv_heads = s.kv_heads, p.head_dim = s.head_dim;
      p.window = s.window, p.longest = s.window > 0 ? std::min(s.window, longest) : longest;
      p.scale = s.scale != 0.0F ? s.scale : 1.0F / std::sqrt(static_cast<float>(s.head_dim));
      p.q = elements<T>(q, n, "q"), p.out = elements<T>(out, n, "out");
      p.caches = reinterpret_cast<const DecodeCache<C>*>(on_device);
      p.parts =
          reinterpret_cast<float*>(scratch(0, 4 * decode_parts_floats(sequences, s.heads, s.head_dim, p.longest)));
      cuda::attention_decode(stream_, p);
    });
  });
}

void CudaOps::attention_merge(const AttentionMergeShape& s, ConstView part, ConstFloats part_lse, Floats out,
                              Floats lse) const {
  const Index rows = s.batch * s.seq * s.heads;
  check_size(out.size(), rows * s.head_dim, "out");
  check_size(lse.size(), rows, "lse");
  check_size(part_lse.size(), rows, "part_lse");
  with_float_type(part.dtype(), "attention_merge", [&](auto type) {
    using T = decltype(type);
    cuda::attention_merge(stream_,
                          Merge<T>{s.batch, s.seq, s.heads, s.head_dim, elements<T>(part, rows * s.head_dim, "part"),
                                   part_lse.data(), out.data(), lse.data()});
  });
}

}  // namespace longhaul::cuda
