// Room engine/train/gradients
// From the gradients of micro-batches to their sum over all ranks.
// gradient_sum.h is the contract; tree_gradient_sum.h (ZeRO 0, 1), bucket_gradient_sum.h (2, 3) implement it.
// gradient_reduction.h is what a step works with: that sum, the sum over the ranks of a replica, the norm.
// gradient_tree.h fixes the order of additions; contribution_guard.h finds bits that changed in a sum.
// It does not know the optimizer that uses the sum.
//
// From the gradients of a rank's micro-batches to the sum over all of them, of what this rank owns. Two ways:
//
// - TreeGradientSum (ZeRO 0 and 1) keeps a whole array of gradients and sums them along one tree over the global
//   micro-batch index (gradient_tree.h, then the same tree over ranks): how micro-batches are distributed over ranks
//   changes no bit. A unit's sum over the ranks may start when the last micro-batch's backward has passed it.
// - BucketGradientSum (ZeRO 2 and 3) has memory for a few units only: each micro-batch's gradient of a unit is summed
//   over the ranks as soon as it is complete, and added to the owned share. Over ranks first: the order of the
//   additions is fixed, but another dp gives other last bits.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "contracts/model/parameter_layout.h"
#include "engine/core/tensor/compute_context.h"
#include "engine/model/store/gradient_target.h"
#include "engine/parallel/mesh/mesh.h"
#include "engine/train/gradients/contribution_guard.h"

namespace longhaul {

struct GradientSumOptions {
  std::vector<int> micro_batches = {1};  // of this rank in a step: every number that there may be
  bool deterministic = true;
  // Parts of several micro-batches come by turns: input and weight backward run apart, or there are several stages.
  bool by_parts = false;
  bool overlap = true;  // reductions start while the backward goes on
  // Called before the sum of a large unit starts (contracts/plan/units_at_once.h): other messages of such units are
  // waited for.
  std::function<void()> before_large;
};

class GradientSum {
 public:
  virtual ~GradientSum() = default;
  // Of a step with that many micro-batches here, one of the numbers named. The context outlives the step.
  virtual void begin(const ComputeContext& context, int micro_batches) = 0;
  // Where the backward of micro-batch i of this step (from 0; each part's in order) writes. It says ready for every
  // part once.
  virtual GradientTarget target(const ComputeContext& context, int index) = 0;
  // Where a backward may write what nobody wants summed, outside of begin() to finish(): overwritten by what follows.
  virtual GradientTarget scratch(const ComputeContext& context) = 0;
  // All of micro-batch i's backward is done; without meaning by parts.
  virtual void done(const ComputeContext& context, int index) = 0;
  // After the last backward: the sum over all micro-batches of all data-parallel ranks, packed as layout.owned(), to
  // be changed at will until begin(). Collective over the data-parallel ranks. With ZeRO 0 and 1 these start no other
  // collective between begin() and this: sums wait for their turn, and when that comes differs from rank to rank.
  virtual Result<std::span<float>> finish(const ComputeContext& context) = 0;
  // Sums of large units are waited for.
  virtual void settle_large() {}
  // Lets what is under way go on: called between operations.
  virtual void poll() = 0;
};

// The guard, borrowed, sees every contribution to a sum over ranks.
std::unique_ptr<GradientSum> make_gradient_sum(const ParameterLayout& layout, Mesh& mesh, ContributionGuard& guard,
                                               const GradientSumOptions& options, MemoryAccount* account = nullptr);

// ZeRO: over the ranks that own the same. `owned`: packed as layout.owned().
Status sum_over_replicates(const ParameterLayout& layout, Mesh& mesh, ContributionGuard& guard, std::span<float> owned);

// Which units have been said to be ready completely: their parameters, part by part, in any order.
class UnitProgress {
 public:
  explicit UnitProgress(const ParameterLayout& layout);
  void begin();
  // The units that the parameters in [begin, end) complete.
  std::vector<int> ready(std::int64_t begin, std::int64_t end);

 private:
  const ParameterLayout& layout_;
  std::vector<int> unit_of_;     // by parameter
  std::vector<int> parameters_;  // of each unit
  std::vector<int> missing_;
};

}  // namespace longhaul
