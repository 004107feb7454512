// Attention of generation over keys and values that lie in pages (Kwon et al. 2023, "PagedAttention", arXiv
// 2309.06180): memory is given to sequences page by page, and sequences with the same beginning may share its pages.
//
// A layer's pool is keys and values [pages, page_tokens, kv_heads, head_dim], f32 or bf16, both of one type. The table
// [sequences, pages_each] says of each sequence in which page of the pool its keys b * page_tokens and following lie;
// lengths [sequences] how many keys it has, those of this step's new tokens included. Table and lengths are i32 and lie
// where the pools lie: on a device nothing of them comes from the host, so a step may be replayed while they change.
//
// A step has `tokens` new tokens of each sequence, the last ones of its length: token t is at position length - tokens
// + t and sees the keys up to its own. A position below 0 is an empty place of the batch (length 0: a whole one): its
// query sees nothing and gets 0, nothing of it is appended. A page number outside of the pool and a length above
// `longest` are a caller's bug: the processor ends the process; a device, where nobody looks, gives NaN and appends
// nothing.
#pragma once

#include <span>

#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/tensor.h"

namespace longhaul {

inline constexpr std::int64_t kPagedTokensMax = 8;

struct PagedShape {
  std::int64_t sequences = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t pages = 0, page_tokens = 0;  // of the pool
  std::int64_t pages_each = 0;              // width of the table
  std::int64_t tokens = 1;                  // new ones of each sequence, at most kPagedTokensMax
  // No length is above it: bounds the work of a device, which knows no length when it starts. 0 = pages_each *
  // page_tokens.
  std::int64_t longest = 0;
  float scale = 0.0F;       // 0 = 1 / sqrt(head_dim)
  std::int64_t window = 0;  // the last keys that a query sees of those up to its own (attention.h); 0 = all

  std::int64_t longest_or_all() const { return longest > 0 ? longest : pages_each * page_tokens; }
};

// q, out [sequences, tokens, heads, head_dim], one type; formula and heads as in attention.h. The bits of a sequence
// depend on its own keys alone: not on the sequences beside it, on where its pages lie, or on `longest`.
void attention_decode_paged(const ComputeContext& context, const PagedShape& shape, ConstView q, ConstView keys,
                            ConstView values, std::span<const std::int32_t> table,
                            std::span<const std::int32_t> lengths, View out);

// The new tokens' keys and values k, v [sequences, tokens, kv_heads, head_dim] (f32 or bf16, rounded to the pool's
// type) to their places. Two sequences must not append to one page: who shares a page that is not full copies it first.
void paged_append(const ComputeContext& context, const PagedShape& shape, ConstView k, ConstView v,
                  std::span<const std::int32_t> table, std::span<const std::int32_t> lengths, View keys, View values);

}  // namespace longhaul
