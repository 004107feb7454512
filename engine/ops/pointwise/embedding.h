// Token embedding: out[t] = table[ids[t]]; gradient: dtable[ids[t]] += dout[t], summed in token order for every row, so
// it depends neither on threads nor on timing.
#pragma once

#include <span>

#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/tensor.h"

namespace longhaul {

struct EmbeddingShape {
  std::int64_t tokens = 0, vocab = 0, hidden = 0;
};

// ids in [0, vocab), or -1 for a row of another shard, which gives zeros and takes no gradient (checked: other ids end
// the process); table [vocab, hidden] and out [tokens, hidden] of one
// type.
void embedding_forward(const ComputeContext& context, EmbeddingShape shape, std::span<const std::int32_t> ids,
                       ConstView table, View out);

// dout f32 or bf16, dtable [vocab, hidden] f32, accumulates.
void embedding_backward(const ComputeContext& context, EmbeddingShape shape, std::span<const std::int32_t> ids,
                        ConstView dout, std::span<float> dtable);

}  // namespace longhaul
