#pragma once

#include <deque>

#include "engine/comm/communicator.h"
#include "engine/train/gradients/gradient_sum.h"
#include "engine/train/gradients/gradient_tree.h"

namespace longhaul {

// Where experts are distributed to several replicas, an expert meets micro-batches of all of them at once.
// Deterministic, each has a gradient of its own behind the flat array, and a tree of its own.
class TreeGradientSum final : public GradientSum {
 public:
  TreeGradientSum(const ParameterLayout& layout, Mesh& mesh, ContributionGuard& guard,
                  const GradientSumOptions& options, MemoryAccount* account);
  void begin(const ComputeContext& context, int micro_batches) override {
    context_ = &context, micro_batches_ = micro_batches;
    tree_.begin(micro_batches);
    progress_.begin();
    waiting_.clear();
  }
  GradientTarget target(const ComputeContext& context, int index) override;
  GradientTarget scratch(const ComputeContext& context) override;
  void done(const ComputeContext& context, int index) override;
  Result<std::span<float>> finish(const ComputeContext& context) override;
  void poll() override;

 private:
  void ready(const ComputeContext& context, FlatRange part, int index);
  // Where the part of an expert unit lies that micro-batch `batch` of those that meet there gave.
  FlatRange part_of_batch(FlatRange part, int batch) const;
  const ShardUnit& unit_at(std::int64_t begin) const;
  // Adds up what they gave: each is a sum over one replica's micro-batches, and neighbouring replicas the tree's next
  // branches.
  void join_batches(const ShardUnit& unit);
  // Sums start in the order in which their units were ready, no more than contracts/plan/units_at_once.h allows at
  // once.
  void start_next();
  void start(int unit);
  Communicator* communicator_of(int unit) const;

  const ParameterLayout& layout_;
  Mesh& mesh_;
  ContributionGuard& guard_;
  GradientSumOptions options_;
  int batches_;                              // that meet in an expert and are kept apart
  std::int64_t expert_size_ = 0;             // of all of those
  std::vector<std::int64_t> expert_begin_;   // of each unit among the experts' units
  const ComputeContext* context_ = nullptr;  // of this step
  int micro_batches_ = 0;
  GradientTree tree_;
  UnitProgress progress_;
  struct UnitSum {
    int unit = 0;
    std::optional<Request> pending;  // empty: done
  };
  std::deque<int> waiting_;        // units whose sum has not started, the first to start first
  std::deque<UnitSum> under_way_;  // the oldest first
  Tensor owned_;                   // ZeRO 1
  Status status_;
};

}  // namespace longhaul
