// One transformer block of the Llama family:
//   m = x + Wo attention(rope(Wq n), rope(Wk n), Wv n), n = norm(x);   y = m + Wd (silu(Wg p) * Wu p), p = norm(m)
// Residual and following norm are one pass over memory, so a block starts from x and norm(x), both already in its slot,
// and ends by writing y and the next norm(y) where the caller says.
//
// Where matrices are split (TensorParallel) this rank has some of the heads and of the ffn: Wq, Wk, Wv, Wg, Wu by rows,
// Wo and Wd by columns, so that each half of the block ends in one sum over the ranks.
#pragma once

#include "engine/model/activations.h"
#include "engine/model/gradient_target.h"
#include "engine/model/parameter_store.h"
#include "engine/ops/rope.h"
#include "engine/parallel/tensor_parallel.h"

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
        int layer, int index);

  std::int64_t input_norm_begin() const { return input_norm_; }
  std::int64_t post_norm_begin() const { return post_norm_; }
  // Flat range of all the block's parameters.
  std::int64_t begin() const { return input_norm_; }
  std::int64_t end() const { return down_ + hidden_ * ffn_; }

  void forward(const ComputeContext& context, int slot, const BlockOutput& output);
  // workspace.dx holds dL/dy on entry and dL/dx on return. Norm weights get their gradient here.
  void backward_input(const ComputeContext& context, int slot, const GradientTarget& target);
  // The four matrices, from what backward_input left; says that the block's gradients are ready.
  void backward_weight(const ComputeContext& context, int slot, const GradientTarget& target);

 private:
  void rotate(const ComputeContext& context, const MicroBatch& batch, View qkv, bool inverse) const;
  // All t rows of an activation of which this rank holds r.
  View all_rows(View rows, std::int64_t tokens);
  // The same kept for the weights' backward.
  void keep_all_rows(const ComputeContext& context, View rows, std::int64_t tokens, View out);
  // y [r, h] = x W^T summed over the ranks, W [h, in] the columns of this one.
  void row_parallel(const ComputeContext& context, std::int64_t tokens, std::int64_t in, View x, ConstView weight,
                    View y);
  // dx [r, h] = dy W summed over the ranks, W [out, h] the rows of this one.
  void column_parallel_backward(const ComputeContext& context, std::int64_t tokens, std::int64_t out, View dy,
                                ConstView weight, View dx);

  const ParameterStore& parameters_;
  const RopeTable& rope_;
  Activations& activations_;
  TensorParallel& tensor_;
  int index_;
  std::int64_t hidden_, ffn_, q_, kv_, heads_, kv_heads_, head_dim_;
  float eps_;
  std::int64_t input_norm_, qkv_, o_, post_norm_, gate_up_, down_;  // begins in the flat arrays
};

// Part of fused rows: `columns` from `begin` on, of the first `tokens` rows; flat from the first to the last of them.
// The ops take the rows' width as stride.
View columns_of(View rows, std::int64_t tokens, std::int64_t begin, std::int64_t columns);
// The first `tokens` rows of an activation.
inline View first_rows(View rows, std::int64_t tokens) {
  return rows.rows(0, tokens);
}
inline std::span<float> first_floats(View floats, std::int64_t count) {
  return floats.span<float>().first(static_cast<std::size_t>(count));
}

}  // namespace longhaul
