// Sums the gradients of consecutive micro-batches along one binary tree over their index: ((g0 + g1) + (g2 + g3)) + ...
// A rank that holds an aligned block of 2^k micro-batches computes exactly a subtree, so dealing the micro-batches to
// another number of ranks (and adding the ranks' sums along the same tree) changes no bit.
//
// In turn: a backward into target(i), then add(i) for all of it. Or accept(range, i) for one part after the other, as
// they become ready, with the same bits: parts of the last micro-batch are final sums then, and where input and weight
// backward run apart (zero-bubble schedules) a part may be a micro-batch ahead of another.
#pragma once

#include <span>
#include <vector>

#include "engine/core/compute_context.h"
#include "engine/core/tensor.h"
#include "engine/model/gradient_target.h"
#include "engine/parallel/flat_range.h"

namespace longhaul {

class GradientTree {
 public:
  // micro_batches: how many one step has. Holds 1 + ceil(log2(micro_batches)) arrays of flat_size floats (one more
  // where micro_batches is no power of two) when `deterministic`; one array, to which they are added in turn, when not.
  GradientTree(std::int64_t flat_size, int micro_batches, bool deterministic, MemoryAccount* account = nullptr);

  // Where the backward of micro-batch i writes: every part of it once.
  GradientTarget target(int index);
  // All of micro-batch `index` is written. Not for the last one, whose parts are accepted, and not mixed with accept.
  void add(const ComputeContext& context, int index);
  // This part of micro-batch `index` is written.
  void accept(const ComputeContext& context, FlatRange part, int index);
  // Where the sums of all micro-batches are: of every part that the last one has had accepted, until the next step's
  // first.
  std::span<float> sum();
  std::int64_t bytes() const;

 private:
  int micro_batches_;
  std::vector<Tensor> levels_;  // levels_[l] holds the sum of 2^l micro-batches when bit l of their number is set
  Tensor leaf_;
  bool deterministic_;
};

}  // namespace longhaul
