// ZeRO 2 and 3 (gradient_sum.h). Memory is taken for as many units as the backward of a model has open at once, which
// is what is planned; should one have more, they get memory that stays.
#pragma once

#include <deque>

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
  Bucket& free_bucket();
  Bucket& add_bucket();
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
  std::vector<bool> large_;                       // by unit
  std::vector<std::vector<FlatRange>> gaps_;      // of each unit, in it: elements of no parameter
  std::int64_t largest_ = 0, largest_share_ = 0;  // of a unit
  MemoryAccount* account_;
  std::deque<Bucket> buckets_;  // they keep their places
  std::vector<Bucket*> order_;  // under way, the oldest first
  Tensor owned_;
  const ComputeContext* context_ = nullptr;
  Status status_;
};

}  // namespace longhaul
