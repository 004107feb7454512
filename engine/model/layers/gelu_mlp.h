// The feed-forward half of a GPT-2 block: y = Wp gelu(Wf p + bf); the bias of Wp is output_bias(). Where matrices are
// split this rank has some of the ffn.
#pragma once

#include "engine/model/layers/feed_forward.h"
#include "engine/model/layers/parallel_linear.h"

namespace longhaul {

class GeluMlp final : public FeedForward {
 public:
  GeluMlp(const ParameterStore& parameters, Activations& activations, TensorParallel& tensor,
          LowPrecisionState* low_precision, int layer, int index);

  ConstView output_bias() const override { return parameters_.vector(projection_bias_, hidden_); }
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
  std::int64_t fc_, fc_bias_, projection_, projection_bias_;  // begins in the flat arrays
};

}  // namespace longhaul
