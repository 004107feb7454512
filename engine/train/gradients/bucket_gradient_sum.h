#pragma once

#include "engine/comm/communicator.h"
#include "engine/train/gradients/gradient_sum.h"

namespace longhaul {

class BucketGradientSum final : public GradientSum {
 public:
  BucketGradientSum(const ParameterLayout& layout, Mesh& mesh, ContributionGuard& guard,
                    const GradientSumOptions& options, MemoryAccount* account);
  void begin(const ComputeContext& context, int micro_batches) override;
  GradientTarget target(const ComputeContext& context, int index) override;
  GradientTarget scratch(const ComputeContext& context) override;
  void done(const ComputeContext&, int) override {}
  Result<std::span<float>> finish(const ComputeContext& context) override;
  void settle_large() override;
  void poll() override;

 private:
  // A unit's gradient of one micro-batch, and this rank's share of its sum over the ranks.
  struct Bucket {
    Tensor gradient, share;
    int unit = -1;
    bool complete = false;
    std::optional<Request> pending;
  };
  GradientTarget located();
  Bucket& bucket_of(int unit);
  void reduce(int unit);
  // Before another sum starts: of all under way, no more than are planned to be.
  void make_room(int unit);
  Communicator* communicator_of(const Bucket& bucket) const;
  // Waits, adds to what is owned, frees the bucket.
  void collect(Bucket& bucket);

  const ParameterLayout& layout_;
  Mesh& mesh_;
  ContributionGuard& guard_;
  GradientSumOptions options_;
  UnitProgress progress_;
  std::vector<bool> large_;                   // by unit
  std::vector<std::vector<FlatRange>> gaps_;  // of each unit, in it: elements of no parameter
  std::vector<Bucket> buckets_;
  std::vector<Bucket*> order_;  // under way, the oldest first
  Tensor owned_;
  const ComputeContext* context_ = nullptr;
  Status status_;
};

}  // namespace longhaul
