// Attention of generation over pages, as engine/ops/attention/paged_attention.h has it, or over caches that have memory
// of their own. Pieces of the keys are computed apart and merged in a fixed order; a sequence's pieces do not depend on
// the sequences beside it.
#pragma once

#include "engine/ops/cuda/common/stream.h"

namespace longhaul::cuda {

inline constexpr Index paged_piece = 128;  // keys that one block looks at

// Keys and values of a sequence that has no pages: [length, kv_heads, head_dim].
template <class C>
struct DecodeCache {
  const C *k, *v;
  Index length;
};

// C: of the pool.
template <class C>
struct Paged {
  Index sequences, tokens, heads, kv_heads, head_dim, pages, page_tokens, pages_each, longest;
  Index window;  // 0: none
  float scale;
  const C *keys, *values;
  const std::int32_t *table, *lengths;  // in the device's memory
  const void* q;                        // [sequences, tokens, heads, head_dim]
  bool q_is_bf16;
  float* parts;  // paged_parts_floats() of scratch
  // In place of pools, table and lengths, where it is not null: the caches of the sequences, in the device's memory. Of
  // a longer one than last_keys the last ones are looked at, as if they were all; 0: all.
  const DecodeCache<C>* caches;
  Index last_keys;
};
template <class C>
Index paged_parts_floats(const Paged<C>& p) {
  return p.sequences * p.tokens * p.heads * ((p.longest + paged_piece - 1) / paged_piece) * (p.head_dim + 2);
}
// out of q's shape.
template <class T, class C>
void attention_decode_paged(cudaStream_t stream, const Paged<C>& p, T* out);

// k, v [sequences, tokens, kv_heads, head_dim] into the pool; of p what says where.
template <class T, class C>
struct PagedAppend {
  Index sequences, tokens, row, pages, page_tokens, pages_each;  // row: kv_heads * head_dim
  const std::int32_t *table, *lengths;
  const T *k, *v;
  C *keys, *values;
};
template <class T, class C>
void paged_append(cudaStream_t stream, const PagedAppend<T, C>& p);

}  // namespace longhaul::cuda
