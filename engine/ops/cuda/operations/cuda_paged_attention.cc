// Generation over pages of keys and values.
#include <cmath>
#include <limits>

#include "base/text/text.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cuda/attention/paged_kernels.h"
#include "engine/ops/cuda/operations/cuda_attention_ops.h"

namespace longhaul::cuda {
namespace {

using cpu::check_size;
using cpu::elements;
using cpu::with_float_type;

void check_shape(const PagedShape& s, std::size_t table, std::size_t lengths) {
  LH_ASSERT(s.kv_heads > 0 && s.heads % s.kv_heads == 0, format("{} heads, {} kv", s.heads, s.kv_heads));
  LH_ASSERT(s.tokens >= 1 && s.tokens <= kPagedTokensMax, format("{} new tokens of a sequence", s.tokens));
  LH_ASSERT(s.pages * s.page_tokens <= std::numeric_limits<std::int32_t>::max(),
            format("{} pages of {}", s.pages, s.page_tokens));
  LH_ASSERT(s.longest_or_all() <= s.pages_each * s.page_tokens,
            format("{} keys in {} pages of {}", s.longest, s.pages_each, s.page_tokens));
  check_size(table, s.sequences * s.pages_each, "table");
  LH_ASSERT(s.window >= 0, format("window {}", s.window));
  check_size(lengths, s.sequences, "lengths");
}
Index pool_size(const PagedShape& s) {
  return s.pages * s.page_tokens * s.kv_heads * s.head_dim;
}

}  // namespace

void CudaAttentionOps::attention_decode_paged(const PagedShape& s, ConstView q, ConstView keys, ConstView values,
                                              Ids table, Ids lengths, View out) const {
  check_shape(s, table.size(), lengths.size());
  const Index n = s.sequences * s.tokens * s.heads * s.head_dim;
  with_float_type(q.dtype(), "attention_decode_paged", [&](auto of_q) {
    with_float_type(keys.dtype(), "attention_decode_paged keys", [&](auto of_pool) {
      using T = decltype(of_q);
      using C = decltype(of_pool);
      Paged<C> p{};
      p.sequences = s.sequences, p.tokens = s.tokens, p.heads = s.heads, p.kv_heads = s.kv_heads;
      p.head_dim = s.head_dim, p.pages = s.pages, p.page_tokens = s.page_tokens, p.pages_each = s.pages_each;
      p.longest = s.longest_or_all(), p.window = s.window;
      p.scale = s.scale != 0.0F ? s.scale : 1.0F / std::sqrt(static_cast<float>(s.head_dim));
      p.keys = elements<C>(keys, pool_size(s), "keys"), p.values = elements<C>(values, pool_size(s), "values");
      p.table = table.data(), p.lengths = lengths.data();
      p.q = elements<T>(q, n, "q"), p.q_is_bf16 = q.dtype() == DType::bf16;
      p.parts = reinterpret_cast<float*>(work_.scratch(0, 4 * paged_parts_floats(p)));
      cuda::attention_decode_paged(work_.stream, p, elements<T>(out, n, "out"));
    });
  });
}

void CudaAttentionOps::paged_append(const PagedShape& s, ConstView k, ConstView v, Ids table, Ids lengths, View keys,
                                    View values) const {
  check_shape(s, table.size(), lengths.size());
  const Index row = s.kv_heads * s.head_dim, n = s.sequences * s.tokens * row;
  with_float_type(k.dtype(), "paged_append", [&](auto of_new) {
    with_float_type(keys.dtype(), "paged_append keys", [&](auto of_pool) {
      using T = decltype(of_new);
      using C = decltype(of_pool);
      cuda::paged_append(
          work_.stream,
          PagedAppend<T, C>{s.sequences, s.tokens, row, s.pages, s.page_tokens, s.pages_each, table.data(),
                            lengths.data(), elements<T>(k, n, "k"), elements<T>(v, n, "v"),
                            elements<C>(keys, pool_size(s), "keys"), elements<C>(values, pool_size(s), "values")});
    });
  });
}

}  // namespace longhaul::cuda
