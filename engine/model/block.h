// One transformer block with norms before its halves:
//   m = x + attention(norm(x)),  y = m + feed_forward(norm(m))
// Residual and following norm are one pass over memory, so a block starts from x and norm(x), both already in its slot,
// and ends by writing y and the next norm(y) where the caller says.
#pragma once

#include "engine/model/attention_layer.h"
#include "engine/model/feed_forward.h"

namespace longhaul {

// What follows a block's residual: the norm whose weight begins at `norm_begin` in the flat parameters.
struct BlockOutput {
  View x;                       // [r, h] y
  View normed;                  // [r, h] norm(y)
  View inv_rms;                 // [r]
  std::int64_t norm_begin = 0;  // -1: none here, the next stage of the pipeline has it
};

class Block {
 public:
  // layer: of the model; index: of the slots' arrays.
  Block(const ParameterStore& parameters, const RopeTable& rope, Activations& activations, TensorParallel& tensor,
        MoeState* experts, int layer, int index);

  std::int64_t input_norm_begin() const { return input_norm_; }
  std::int64_t post_norm_begin() const { return post_norm_; }
  const FeedForward& feed_forward() const { return *feed_forward_; }

  void forward(const ComputeContext& context, int slot, const BlockOutput& output);
  // workspace.dx holds dL/dy on entry and dL/dx on return. Norm weights get their gradient here, which is said.
  void backward_input(const ComputeContext& context, int slot, const GradientTarget& target);
  // The matrices, from what backward_input left; says that their gradients are ready.
  void backward_weight(const ComputeContext& context, int slot, const GradientTarget& target);

 private:
  const ParameterStore& parameters_;
  Activations& activations_;
  TensorParallel& tensor_;
  AttentionLayer attention_;
  std::unique_ptr<FeedForward> feed_forward_;
  int index_;
  std::int64_t hidden_;
  float eps_;
  std::int64_t input_norm_, post_norm_;  // begins in the flat arrays
};

}  // namespace longhaul
