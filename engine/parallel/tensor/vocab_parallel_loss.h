// The output layer and its loss where every rank of the tp group holds some rows of the output matrix; the same
// mathematics as lm_head_loss (engine/ops/loss/cross_entropy.h), `chunk_tokens` tokens at a time.
#pragma once

#include <functional>
#include <span>

#include "engine/parallel/tensor/tensor_parallel.h"

namespace longhaul {

struct VocabShard {
  std::int64_t tokens = 0, hidden = 0;
  std::int64_t first = 0, rows = 0;  // of the vocabulary
  std::int64_t chunk_tokens = 1024;
  bool accumulate = true;  // false: dweight is written
};

// x [tokens, hidden] and weight [rows, hidden] of one type; targets of the whole vocabulary, -1: none; loss [tokens],
// the same on every rank. dx_partial [tokens, hidden] f32: this rank's addend of dL/dx, written; empty: only losses.
// dweight [rows, hidden] f32 accumulates or is written. dx_ready (empty: nobody asks) is called once when all of
// dx_partial is written, before the last product. Collective; failures are kept in `tensor`.
void vocab_parallel_loss(const ComputeContext& context, TensorParallel& tensor, const VocabShard& shard, ConstView x,
                         ConstView weight, std::span<const std::int32_t> targets, std::span<const float> weights,
                         std::span<float> loss, View dx_partial, View dweight, const std::function<void()>& dx_ready);

}  // namespace longhaul
