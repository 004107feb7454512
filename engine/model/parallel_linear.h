// Linear layers whose matrix is split over a tp group (Shoeybi et al. 2019, section 3), with sequence parallelism or
// without; plain linear layers where nothing is split. Column-parallel: this rank has some rows of W and gives some
// columns of y. Row-parallel: it has some columns of W and an addend of y. t tokens of the micro-batch, r those of them
// whose residual this rank holds.
#pragma once

#include "engine/model/activations.h"
#include "engine/parallel/tensor_parallel.h"

namespace longhaul {

class ParallelLinear {
 public:
  // Borrowed: the group and the memory of what is gathered and summed.
  ParallelLinear(TensorParallel& tensor, Activations& activations, std::int64_t hidden)
      : tensor_(tensor), activations_(activations), hidden_(hidden) {}

  std::int64_t rows(std::int64_t tokens) const { return tensor_.rows(tokens); }
  // All t rows of an activation of which this rank holds r; valid until the next call.
  View all_rows(View rows, std::int64_t tokens);
  // The same kept for the weights' backward.
  void keep_all_rows(const ComputeContext& context, View rows, std::int64_t tokens, View out);
  // y [r, h] = x W^T summed over the ranks, W [h, in] the columns of this one.
  void row_parallel(const ComputeContext& context, std::int64_t tokens, std::int64_t in, View x, ConstView weight,
                    View y);
  // dx [r, h] = dy W summed over the ranks, W [out, h] the rows of this one.
  void column_parallel_backward(const ComputeContext& context, std::int64_t tokens, std::int64_t out, View dy,
                                ConstView weight, View dx);

 private:
  TensorParallel& tensor_;
  Activations& activations_;
  std::int64_t hidden_;
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
