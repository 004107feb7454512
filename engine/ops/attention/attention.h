// Room engine/ops/attention
// The contracts of attention: training, generation from caches or pages, rotary positions, softmax.
// attention.h has the formulas; paged_attention.h and kv_table.h generate; attention_choice.h decides on a GPU.
// The implementations (cpu/attention, cuda/attention, cuda/libraries) may not be included here.
//
// Causal attention with grouped queries, exact, without ever holding [seq, seq]: keys are walked in tiles with a
// running maximum and sum (Milakov & Gimelshein 2018; Dao et al. 2022, algorithms 1 and 4). Softmax in f32.
//   S = q k^T / sqrt(d), P = softmax(S), out = P v;  lse = log sum exp S
//   backward: delta = sum(dout out);  dv = P^T dout;  dS = P (dout v^T - delta);  dq = dS k / sqrt(d);  dk = dS^T q /
//   sqrt(d)
// Query head h reads key-value head h / (heads / kv_heads), as in Hugging Face files.
#pragma once

#include <span>

#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/tensor.h"

namespace longhaul {

// Shapes: q, out [batch, seq, heads, head_dim]; k, v [batch, kv_seq, kv_heads, head_dim]; lse [batch, heads, seq] f32.
struct AttentionShape {
  std::int64_t batch = 0, seq = 0, heads = 0, kv_heads = 0, head_dim = 0;
  // Keys may start before the queries (prefill in pieces): query i sees keys 0 .. kv_seq - seq + i. 0 = seq.
  std::int64_t kv_seq = 0;
  // false: every query sees all keys (a part of the keys that lies wholly before the queries).
  bool causal = true;
  // A sliding window, with causal alone (Beltagy et al. 2020, "Longformer", section 3.1; Jiang et al. 2023, "Mistral
  // 7B", section 2): a query sees the last `window` keys that it would see otherwise, its own token's among them, so
  // query i none before kv_seq - seq + i + 1 - window. 0 = none. Work grows with seq * window; a window that holds all
  // keys gives the bits of none.
  std::int64_t window = 0;
  // Elements from one token to the next, for slices of a fused QKV; 0 = heads * head_dim or kv_heads * head_dim.
  std::int64_t q_stride = 0, kv_stride = 0, out_stride = 0;
  // Elements from one sequence's keys to the next one's, where not all of its keys are looked at; 0 = kv_seq *
  // kv_stride.
  std::int64_t kv_batch_stride = 0;
  float scale = 0.0F;  // 0 = 1 / sqrt(head_dim)
};

// q, k, v, out of one type (f32 or bf16). lse may be empty when no backward follows.
// first_key [batch, seq]: the first key that a query may see, non-decreasing along seq (packed documents: the start of
// its document); empty: 0. Where causal is false it may be kv_seq: a query that sees no key has out 0 and lse
// -infinity.
void attention_forward(const ComputeContext& context, const AttentionShape& shape, ConstView q, ConstView k,
                       ConstView v, View out, std::span<float> lse, std::span<const std::int32_t> first_key = {});

// dq, dk, dv are written (not accumulated), with the strides of q, k, v; dout has that of out. dq may be q's memory?
// No: q is read again. Deterministic for every thread count. With out and lse of attention over more keys than these
// (attention_merge) it gives these keys' part of the gradients.
void attention_backward(const ComputeContext& context, const AttentionShape& shape, ConstView dout, ConstView q,
                        ConstView k, ConstView v, ConstView out, std::span<const float> lse, View dq, View dk, View dv,
                        std::span<const std::int32_t> first_key = {});

// Attention over two disjoint sets of keys, from both results: lse' = log(exp lse + exp part_lse), out' = out exp(lse -
// lse') + part exp(part_lse - lse') (Milakov & Gimelshein 2018, eq. 4). In place on out [batch, seq, heads, head_dim]
// f32 and lse [batch, heads, seq]; part is of any float type. lse = -infinity: nothing was seen, out is not read.
struct AttentionMergeShape {
  std::int64_t batch = 0, seq = 0, heads = 0, head_dim = 0;
};
void attention_merge(const ComputeContext& context, const AttentionMergeShape& shape, ConstView part,
                     std::span<const float> part_lse, std::span<float> out, std::span<float> lse);

// One new token of each of several sequences against its cache.
struct KvCacheView {
  ConstView k, v;           // [length or more, kv_heads, head_dim], f32 or bf16
  std::int64_t length = 0;  // keys to look at, the new token's included
};
struct AttentionDecodeShape {
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  float scale = 0.0F;       // 0 = 1 / sqrt(head_dim)
  std::int64_t window = 0;  // the last keys of each cache that are looked at; 0 = all
};
// q, out [sequences, heads, head_dim], one type; caches may have another.
void attention_decode(const ComputeContext& context, const AttentionDecodeShape& shape, ConstView q,
                      std::span<const KvCacheView> caches, View out);

}  // namespace longhaul
