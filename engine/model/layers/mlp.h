// The dense feed-forward half of a block: y = Wo activation(Wi p). Llama: silu(Wg p) * Wu p with Wi = [Wg, Wu], no
// biases. GPT-2: gelu(Wi p + bi), and the bias of Wo is output_bias(). Where matrices are split this rank has some of
// the ffn.
#pragma once

#include "engine/model/layers/feed_forward.h"
#include "engine/model/layers/parallel_linear.h"

namespace longhaul {

class Mlp final : public FeedForward {
 public:
  Mlp(const ParameterStore& parameters, Activations& activations, TensorParallel& tensor,
      LowPrecisionState* low_precision, AdapterDropout* dropout, int layer, int index);

  ConstView output_bias() const override { return bias(out_bias_, hidden_); }
  void forward(const ComputeContext& context, int slot, View y) override;
  void restore(const ComputeContext& context, int slot, bool inputs) override;
  void backward_input(const ComputeContext& context, int slot, View dy, View dn) override;
  void finish_input(const ComputeContext& context, int slot) override;
  void backward_weight(const ComputeContext& context, int slot, const GradientTarget& target) override;

 private:
  ConstView weight_in() const { return parameters_.weight(in_, wide_, hidden_); }
  ConstView weight_out() const { return parameters_.weight(out_, hidden_, ffn_); }
  AdapterAddend beside_in(const MicroBatch& batch) const {
    return AdapterDropout::addend(dropout_, batch, in_, wide_, hidden_);
  }
  AdapterAddend beside_out(const MicroBatch& batch) const {
    return AdapterDropout::addend(dropout_, batch, out_, hidden_, ffn_);
  }
  ConstView bias(std::int64_t begin, std::int64_t elements) const {
    return begin < 0 ? ConstView() : parameters_.vector(begin, elements);
  }

  const ParameterStore& parameters_;
  Activations& activations_;
  ParallelLinear linear_;
  AdapterDropout* dropout_;  // null: none
  int index_;
  bool gated_;  // Llama's
  std::int64_t hidden_, ffn_;
  std::int64_t wide_;                          // rows of Wi: 2 ffn where it has a gate
  std::int64_t in_, out_;                      // begins in the flat arrays
  std::int64_t in_bias_ = -1, out_bias_ = -1;  // -1: none
};

}  // namespace longhaul
