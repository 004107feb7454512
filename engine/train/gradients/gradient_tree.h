// Sums the gradients of consecutive micro-batches in one order that does not depend on how many ranks share them. With
// n = q * 2^k micro-batches, q odd, each q neighbours are added in turn and the 2^k sums along one binary tree over
// their index: ((g0 + g1) + (g2 + g3)) + ... A rank that holds n / 2^j of them computes exactly a subtree, so
// distributing the micro-batches to 1, 2, 4, ... ranks (and adding the ranks' sums along the same tree) changes no bit.
//
// In turn: a backward into target(i), then add(i) for all of it. Or accept(range, i) for one part after the other, as
// they become ready, with the same bits: parts of the last micro-batch are final sums then, and where input and weight
// backward run apart (zero-bubble schedules) a part may be a micro-batch ahead of another.
#pragma once

#include <span>
#include <vector>

#include "contracts/model/flat_range.h"
#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/tensor.h"
#include "engine/model/store/gradient_target.h"

namespace longhaul {

class GradientTree {
 public:
  // micro_batches: how many a step may have. Holds 1 + k arrays of flat_size floats, with the largest k of them, when
  // `deterministic`; one array, to which they are added in turn, when not. The first step has micro_batches.front().
  GradientTree(std::int64_t flat_size, std::span<const int> micro_batches, bool deterministic,
               MemoryAccount* account = nullptr);

  // Of a step.
  void begin(int micro_batches);
  // Where the backward of micro-batch i writes: every part of it once.
  GradientTarget target(int index);
  // All of micro-batch `index` is written. Not for the last one, whose parts are accepted, and not mixed with accept.
  void add(const ComputeContext& context, int index);
  // This part of micro-batch `index` is written.
  void accept(const ComputeContext& context, FlatRange part, int index);
  // Where the sums of all micro-batches are: of every part that the last one has had accepted, until the next step's
  // first.
  std::span<float> sum() { return leaf_.span<float>(); }
  std::int64_t bytes() const;

 private:
  bool group_ends(int index) const { return (index + 1) % group_ == 0; }

  bool deterministic_;
  int micro_batches_ = 1, group_ = 1;  // of this step; q
  Tensor leaf_;
  std::vector<Tensor> levels_;  // levels_[l] holds the sum of 2^l groups when bit l of their number is set
};

}  // namespace longhaul
