// The feed-forward half of a Llama block: y = Wd (silu(Wg p) * Wu p). Where matrices are split this rank has some of
// the ffn.
#pragma once

#include "engine/model/layers/feed_forward.h"
#include "engine/model/layers/parallel_linear.h"

namespace longhaul {

class GatedMlp final : public FeedForward {
 public:
  GatedMlp(const ParameterStore& parameters, Activations& activations, TensorParallel& tensor,
           LowPrecisionState* low_precision, int layer, int index);

  void forward(const ComputeContext& context, int slot, View y) override;
  void restore(const ComputeContext& context, int slot, bool inputs) override;
  void backward_input(const ComputeContext& context, int slot, View dy, View dn) override;
  void finish_input(const ComputeContext& context, int slot) override;
  void backward_weight(const ComputeContext& context, int slot, const GradientTarget& target) override;

 private:
  const ParameterStore& parameters_;
  Activations& activations_;
  ParallelLinear linear_;
  int index_;
  std::int64_t hidden_, ffn_;
  std::int64_t gate_up_, down_;  // begins in the flat arrays
};

}  // namespace longhaul
