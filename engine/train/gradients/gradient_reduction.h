// The gradient of a step over all ranks: where backwards write, the sum over data-parallel ranks (gradient_sum.h), then
// over the ranks of a replica that have a part each, its norm. Every contribution to a sum over ranks is seen by the
// guard (contribution_guard.h). It does not know micro-batches' contents, nor what the gradient is used for.
#pragma once

#include <memory>
#include <vector>

#include "engine/core/tensor/memory_accounts.h"
#include "engine/model/adapter/adapted_weights.h"
#include "engine/model/llama.h"
#include "engine/model/store/parameter_store.h"
#include "engine/train/gradients/contribution_guard.h"
#include "engine/train/gradients/gradient_sum.h"

namespace longhaul {

struct GradientReductionOptions {
  GradientSumOptions sum;             // its before_large is set here
  AdaptedWeights* adapted = nullptr;  // borrowed; null: the models' weights are trained
  bool check_contributions = false;
  bool overlap_weights = true;  // weights are gathered while others are in use (ZeRO)
};

class GradientReduction {
 public:
  // All borrowed; one thread.
  GradientReduction(const ComputeContext& context, Mesh& mesh, ParameterStore& store,
                    const GradientReductionOptions& options, MemoryAccounts* memory);

  // Gradients and weights to the ranks that share them, over the mesh as it is now; until disconnect().
  void connect();
  void disconnect();

  // A step with that many micro-batches on this rank. Then, as in GradientSum:
  void begin(int micro_batches);
  GradientTarget target(int micro_batch) { return sum_->target(context_, micro_batch); }
  GradientTarget scratch() { return sum_->scratch(context_); }
  void done(int micro_batch) { sum_->done(context_, micro_batch); }
  void poll();
  // The sum over data-parallel ranks, packed as layout.owned(), as what follows here wants it.
  Result<std::span<float>> finish();
  // Over the ranks of a replica; `stages`: the models of this rank. Collective.
  Status sum_over_replica(const std::vector<Llama*>& stages, std::span<float> gradient);
  // Of every weight once. Collective over the world where ranks hold different ones.
  Result<double> norm(std::span<const float> gradient);
  ContributionGuard& guard() { return guard_; }

 private:
  void settle();
  void settle_adapted();
  Status sum_over_context(std::span<float> gradient);
  Status sum_over(CollectiveGroup& ranks, const std::vector<FlatRange>& ranges, std::span<float> gradient);

  const ComputeContext& context_;
  Mesh& mesh_;
  ParameterStore& store_;
  GradientReductionOptions options_;
  MemoryAccounts* memory_;  // may be null
  ContributionGuard guard_;
  std::unique_ptr<GradientSum> sum_;  // null while not connected
};

}  // namespace longhaul
