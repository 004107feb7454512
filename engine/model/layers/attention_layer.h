// Room engine/model/layers
// The parts of a transformer block: attention, feed-forward, norm, dropout, and the memory that they use.
// attention_layer.h and feed_forward.h are the two halves; parallel_linear.h splits their matrices over tp.
// activations.h is all memory of forward and backward, taken once; mlp.h is the feed-forward half.
// It knows neither blocks nor experts: both are built from these parts.
//
// The attention half of a block, without norm and residual: y = Wo attention(rope(Wq n), rope(Wk n), Wv n). Where
// matrices are split this rank has some of the heads. GPT-2 has biases and rotates nothing; the bias of Wo is not part
// of y: it is added once, with the residual (Shoeybi et al. 2019, section 3, would add it on every rank). Keys and
// values before a text (prefix_rows.h) take the place of computed ones.
#pragma once

#include "engine/model/layers/parallel_linear.h"
#include "engine/model/layers/prefix_rows.h"
#include "engine/model/store/gradient_target.h"
#include "engine/model/store/parameter_store.h"
#include "engine/ops/attention/rope.h"
#include "engine/parallel/context/context_attention.h"

namespace longhaul {

class AttentionLayer {
 public:
  // low_precision, dropout (of an adapter's input): null: none. layer: of the model; index: of the slots' arrays.
  AttentionLayer(const ParameterStore& parameters, const RopeTable& rope, Activations& activations,
                 TensorParallel& tensor, ContextAttention& attention, LowPrecisionState* low_precision,
                 AdapterDropout* dropout, int layer, int index);

  // The bias of Wo [h]; empty: none.
  ConstView output_bias() const;
  // The slot's input_norm [r, h] -> y [r, h].
  void forward(const ComputeContext& context, int slot, View y);
  // Computes q, k, v and the attention's output again from input_norm.
  void restore(const ComputeContext& context, int slot);
  // dy [r, h] -> dn [r, h], which is there after finish_input(); sums over ranks may go on until then.
  void backward_input(const ComputeContext& context, int slot, View dy, View dn);
  void finish_input(const ComputeContext& context) { linear_.finish(context); }
  // From what backward_input left; says that its gradients are ready.
  void backward_weight(const ComputeContext& context, int slot, const GradientTarget& target);

 private:
  // Of qkv, and of Wo.
  AdapterAddend beside_qkv(const MicroBatch& batch) const {
    return AdapterDropout::addend(dropout_, batch, at_.qkv, q_ + 2 * kv_, hidden_);
  }
  AdapterAddend beside_o(const MicroBatch& batch) const {
    return AdapterDropout::addend(dropout_, batch, at_.o, hidden_, q_);
  }
  void rotate(const ComputeContext& context, const MicroBatch& batch, View qkv, bool inverse) const;

  const ParameterStore& parameters_;
  const RopeTable& rope_;
  Activations& activations_;
  ParallelLinear linear_;
  ContextAttention& attention_;
  AdapterDropout* dropout_;
  int index_;
  std::int64_t hidden_, q_, kv_, heads_, kv_heads_, head_dim_;
  PrefixRows prefix_;
  // Where its weights begin in the flat arrays; biases: -1: none.
  struct Places {
    std::int64_t qkv = 0, o = 0, qkv_bias = -1, o_bias = -1;
  } at_;
};

}  // namespace longhaul
