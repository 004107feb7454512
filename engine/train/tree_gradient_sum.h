#pragma once

#include "engine/comm/communicator.h"
#include "engine/train/gradient_sum.h"
#include "engine/train/gradient_tree.h"

namespace longhaul {

class TreeGradientSum final : public GradientSum {
 public:
  TreeGradientSum(const ParameterLayout& layout, Mesh& mesh, const GradientSumOptions& options, MemoryAccount* account);
  void begin(int micro_batches) override {
    micro_batches_ = micro_batches;
    tree_.begin(micro_batches);
    progress_.begin();
  }
  GradientTarget target(const ComputeContext& context, int index) override;
  void done(const ComputeContext& context, int index) override;
  Result<std::span<float>> finish(const ComputeContext& context) override;
  void poll() override;

 private:
  void ready(const ComputeContext& context, FlatRange part, int index);
  void start(int unit);

  const ParameterLayout& layout_;
  Mesh& mesh_;
  GradientSumOptions options_;
  int micro_batches_ = 0;  // of this step
  GradientTree tree_;
  UnitProgress progress_;
  std::vector<std::optional<Request>> pending_;  // by unit
  Tensor owned_;                                 // ZeRO 1
  Status status_;
};

}  // namespace longhaul
