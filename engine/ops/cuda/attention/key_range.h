// Which keys a query sees, and where a pair of sequence and head has its rows: what every tiled kernel of attention
// asks first. Device code; `tile` is how many queries, or keys, a block has.
#pragma once

#include "engine/ops/cuda/attention/attention_kernels.h"
#include "engine/ops/cuda/common/device_code.h"

namespace longhaul::cuda {

struct Place {
  Index batch, head, kv_head;
};
__device__ inline Place place_of(const AttentionSizes& s, Index pair) {
  return {pair / s.heads, pair % s.heads, pair % s.heads / (s.heads / s.kv_heads)};
}
template <class T>
__device__ inline const T* of_queries(const AttentionSizes& s, const T* x, Index stride, const Place& p) {
  return x + p.batch * s.seq * stride + p.head * s.head_dim;
}
template <class T>
__device__ inline const T* of_keys(const AttentionSizes& s, const T* x, const Place& p) {
  return x + p.batch * s.kv_batch_stride + p.kv_head * s.head_dim;
}

// The keys that a query sees: [first, end); those of queries that are not there: none.
struct KeyRange {
  Index first, end;
  __device__ bool has(Index key) const { return key >= first && key < end; }
};
__device__ inline KeyRange keys_of(const AttentionSizes& s, Index batch, Index query) {
  if (query >= s.seq) return {0, 0};
  const Index first = s.first_key == nullptr ? 0 : s.first_key[batch * s.seq + query];
  const Index end = s.causal ? s.kv_seq - s.seq + query + 1 : s.kv_seq;
  return {s.window > 0 && end - s.window > first ? end - s.window : first, end};
}
// first_key does not fall along the sequence, nor does a window's first key: the first query of a tile sees the
// earliest key, the last one the latest.
template <int tile>
__device__ inline KeyRange keys_of_tile(const AttentionSizes& s, Index batch, Index begin) {
  const Index last = begin + tile < s.seq ? begin + tile - 1 : s.seq - 1;
  return {keys_of(s, batch, begin).first / tile * tile, keys_of(s, batch, last).end};
}

// From this query on none sees a key before `end`.
__device__ inline Index end_of_queries(const AttentionSizes& s, Index end) {
  const Index beyond = end - 1 + s.window - (s.kv_seq - s.seq);
  return s.window == 0 || beyond > s.seq ? s.seq : beyond;
}

}  // namespace longhaul::cuda
