// Sums the gradients of consecutive micro-batches along one binary tree over their index: ((g0 + g1) + (g2 + g3)) + ...
// A rank that holds an aligned block of 2^k micro-batches computes exactly a subtree, so dealing the micro-batches to
// another number of ranks (and adding the ranks' sums along the same tree) changes no bit.
//
//   tree.begin(); for each micro-batch { backward(tree.target()); tree.add(); }  sum = tree.finish();
#pragma once

#include <span>
#include <vector>

#include "engine/core/compute_context.h"
#include "engine/core/tensor.h"
#include "engine/model/gradient_target.h"

namespace longhaul {

class GradientTree {
 public:
  // micro_batches: how many one step has. Holds 1 + ceil(log2(micro_batches)) arrays of flat_size floats (one more
  // where micro_batches is no power of two) when `deterministic`; one array, to which they are added in turn, when not.
  GradientTree(std::int64_t flat_size, int micro_batches, bool deterministic, MemoryAccount* account = nullptr);

  void begin();
  // Where the next micro-batch's backward writes.
  GradientTarget target();
  void add(const ComputeContext& context);
  // The sum over all that was added; valid until begin().
  std::span<float> finish(const ComputeContext& context);
  std::int64_t bytes() const;

 private:
  std::vector<Tensor> levels_;  // levels_[l] holds the sum of 2^l micro-batches when bit l of count_ is set
  Tensor leaf_;
  int count_ = 0;
  bool deterministic_;
};

}  // namespace longhaul
