// Generation over caches whose places and lengths lie in the memory that the operations work in, as tables: a call is
// the same for every step, whatever the sequences hold by then, so that a device can record it and be asked for all of
// it again (Device::record).
#pragma once

#include <span>

#include "engine/ops/attention/attention.h"
#include "engine/ops/linear/gemm.h"

namespace longhaul {

// Keys and values of one sequence in one layer, [length or more, kv_heads, head_dim] each, of one type.
struct KvPlace {
  std::byte* keys = nullptr;
  std::byte* values = nullptr;
  std::int64_t length = 0;  // how many tokens attention looks at, the newest included
};

struct KvAppendShape {
  std::int64_t tokens = 0;
  std::int64_t q_size = 0, kv_size = 0;  // heads * head_dim
};
// qkv [tokens, q + 2 kv], f32 or bf16, of the caches' type. Keys and values of row t become row positions[t] of
// places[sequences[t]]; queries are written to q [tokens, q]. No two rows have one place.
void kv_append(const ComputeContext& context, const KvAppendShape& shape, ConstView qkv,
               std::span<const std::int32_t> sequences, std::span<const std::int32_t> positions,
               std::span<const KvPlace> places, View q);

// One new token of each sequence against its cache: attention_decode (attention.h) over a table. q, out [sequences,
// heads, head_dim], of one type with the caches. longest: no sequence is longer; what it is changes no result.
void attention_decode_table(const ComputeContext& context, const AttentionDecodeShape& shape, ConstView q,
                            std::span<const KvPlace> places, std::int64_t longest, View out);

// Rows ids[t] of an int8 table as linear_forward_int8 has it (shape: tokens, in = its width, out = its rows), in out's
// type: [tokens, in].
void embedding_int8(const ComputeContext& context, LinearShape shape, std::span<const std::int32_t> ids, ConstView q,
                    std::span<const float> scales, View out);

}  // namespace longhaul
