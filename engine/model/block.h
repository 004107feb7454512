// One transformer block with norms before its halves:
//   m = x + attention(norm(x)),  y = m + feed_forward(norm(m))
// with two small layers behind either half where the model has them (layers/bottleneck.h).
// Residual and following norm are one pass over memory, so a block starts from x and norm(x), both already in its slot,
// and ends by writing y and the next norm(y) where the caller says.
#pragma once

#include "engine/model/layers/attention_layer.h"
#include "engine/model/layers/bottleneck.h"
#include "engine/model/layers/feed_forward.h"
#include "engine/model/layers/model_dropout.h"
#include "engine/model/layers/norm.h"

namespace longhaul {

// What follows a block's residual.
struct BlockOutput {
  View x;                      // [r, h] y
  View normed;                 // [r, h] norm(y)
  View inv_rms;                // [r]
  const Norm* norm = nullptr;  // nullptr: none here, the next stage of the pipeline has it
};

class Block {
 public:
  // layer: of the model; index: of the slots' arrays.
  Block(const ParameterStore& parameters, const RopeTable& rope, Activations& activations, TensorParallel& tensor,
        const ModelDropout& dropout, ContextAttention& attention, MoeState* experts, LowPrecisionState* low_precision,
        int layer, int index);

  const FeedForward& feed_forward() const { return *feed_forward_; }
  const Norm& input_norm() const { return input_norm_; }
  const Norm& post_norm() const { return post_norm_; }

  void forward(const ComputeContext& context, int slot, const BlockOutput& output);
  // workspace.dx holds dL/dy on entry and dL/dx on return. All gradients of parameters, or with split_backward those of
  // norms and bottlenecks alone; says that they are ready.
  void backward(const ComputeContext& context, int slot, const GradientTarget& target);
  // With split_backward the matrices, from what backward left.
  void backward_weight(const ComputeContext& context, int slot, const GradientTarget& target);

 private:
  void first_half(const ComputeContext& context, int slot);
  void restore(const ComputeContext& context, int slot);
  // One of the two halves: what stands between its layers and the residual.
  struct Half {
    std::int64_t dropout_place;
    const Bottleneck& bottleneck;
    const BottleneckActivations& kept;  // of the slot
  };
  Half attention_half(const BlockActivations& kept) const;
  Half feed_forward_half(const BlockActivations& kept) const;
  // Dropout and bottleneck of branch + bias, which is then no bias any more; without both it is left to the residual.
  void finish_branch(const ComputeContext& context, const MicroBatch& batch, const Half& half, View branch,
                     ConstView& bias);
  // What of dL/dy reaches the branch of a half: dy itself, or a copy of it that went through bottleneck and mask. The
  // bottleneck's gradients are written, and said to be ready.
  View reaches(const ComputeContext& context, const MicroBatch& batch, const Half& half, View dy,
               const GradientTarget& target);

  Activations& activations_;
  TensorParallel& tensor_;
  ModelDropout dropout_;
  AttentionLayer attention_;
  std::unique_ptr<FeedForward> feed_forward_;
  Norm input_norm_, post_norm_;
  Bottleneck attention_bottleneck_, feed_forward_bottleneck_;
  int layer_, index_;
  std::int64_t hidden_;
};

}  // namespace longhaul
