// What ranks that compute a model together (inference_ranks.h) add up and put side by side, with the memory for it: it
// grows to the largest step and stays. Where one rank has all of a matrix, nothing is done and no memory is taken.
#pragma once

#include <utility>

#include "engine/model/inference/ranks/inference_ranks.h"
#include "engine/model/store/growing_memory.h"

namespace longhaul {

class RankSums {
 public:
  // The account is borrowed; null: the host's memory.
  RankSums(InferenceRanks ranks, MemoryAccount* account)
      : ranks_(std::move(ranks)), partial_(account), columns_(account) {}

  const InferenceRanks& ranks() const { return ranks_; }
  InferenceRanks& ranks() { return ranks_; }
  // Takes what steps of so many tokens and rows of logits need.
  void take(const ModelShape& shape, DType dtype, std::int64_t tokens, std::int64_t logits_rows);

  // Where this rank's addend of y goes: y itself, or f32 numbers of that shape. Then y = the sum over the ranks.
  View addend_of(View y);
  void add_up(const ComputeContext& context, View addend, View y);
  // y = the sum over the ranks of y, of addends that are rounded already.
  void add_up(const ComputeContext& context, View y);

  // Where this rank's columns of logits [rows, vocab] f32 go: [rows, count]. Then all ranks of the stage have all of
  // them.
  View columns_of_rank(View logits, std::int64_t count);
  void put_together(const ComputeContext& context, View logits);

 private:
  bool widens(const View& y) const { return ranks_.split_matrices() && y.dtype() != DType::f32; }
  // Columns of one rank, as many as the first has, and behind them those of all.
  std::int64_t block_of(const View& logits) const;
  View blocks_of(const View& logits);

  InferenceRanks ranks_;
  GrowingMemory partial_, columns_;
};

}  // namespace longhaul
