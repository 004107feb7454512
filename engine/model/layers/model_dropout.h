// Where a model drops, in training: the embedding's output, and what attention and feed-forward of each block add to
// the residual (GPT-2's resid_pdrop and embd_pdrop). Attention probabilities are left alone.
#pragma once

#include <algorithm>

#include "engine/model/layers/micro_batch.h"
#include "engine/ops/pointwise/dropout.h"
#include "engine/parallel/context/context_shard.h"
#include "engine/parallel/tensor/tensor_parallel.h"

namespace longhaul {

class AdapterDropout;

// Tokens [first, last) of a micro-batch as far as they are neighbours in their sequences: use(mask, begin, end), with
// `mask` for those [begin, end). With context parallelism early chunks of all sequences come first, then late ones.
template <class Use>
void for_each_neighbours(const MicroBatch& batch, const ContextShard& shard, std::int64_t first, std::int64_t last,
                         DropoutMask mask, const Use& use) {
  mask.sample = batch.first_sequence, mask.length = batch.length;
  const std::int64_t halves = shard.splits() ? 2 : 1, half_tokens = batch.tokens() / halves;
  for (std::int64_t half = 0; half < halves; ++half) {
    const std::int64_t begin = std::max(first, half * half_tokens), end = std::min(last, (half + 1) * half_tokens);
    if (begin >= end) continue;
    mask.first = begin - half * half_tokens;
    if (halves > 1) mask.offset = shard.chunk(static_cast<int>(half)) * batch.length;
    use(mask, begin, end);
  }
}

struct ModelDropout {
  double rate = 0;
  std::uint64_t seed = 0;
  View masked = {};  // [r, hidden] of the largest batch: the gradient that reaches a branch
  ContextShard context_shard = {};
  AdapterDropout* of_adapter = nullptr;  // what an adapter drops of its own input; borrowed; null: nothing

  static std::int64_t embedding_place() { return 0; }
  static std::int64_t attention_place(int layer) { return 1 + 2 * layer; }
  static std::int64_t feed_forward_place(int layer) { return 2 + 2 * layer; }

  bool drops(const MicroBatch& batch) const { return rate > 0 && batch.first_sequence >= 0; }
  // Of this rank's rows of the batch, [r, hidden]; only where it drops. out may be x. The gradient likewise.
  void apply(const ComputeContext& context, const MicroBatch& batch, const TensorParallel& tensor, std::int64_t place,
             std::int64_t hidden, ConstView x, View out) const {
    DropoutMask mask;
    mask.rate = rate, mask.seed = seed, mask.place = place;
    const std::int64_t first = tensor.first_row(batch.tokens()), last = first + tensor.rows(batch.tokens());
    for_each_neighbours(batch, context_shard, first, last, mask,
                        [&](const DropoutMask& own, std::int64_t begin, std::int64_t end) {
                          dropout(context, own, end - begin, hidden, x.rows(begin - first, end - first),
                                  out.rows(begin - first, end - first));
                        });
  }
};

}  // namespace longhaul
