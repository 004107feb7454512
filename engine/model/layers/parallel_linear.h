// Linear layers whose matrix is split over a tp group (Shoeybi et al. 2019, section 3), with sequence parallelism or
// without; plain linear layers where nothing is split. Column-parallel: this rank has some rows of W and gives some
// columns of y. Row-parallel: it has some columns of W and an addend of y. t tokens of the micro-batch, r those of them
// whose residual this rank holds.
//
// Each half of a layer has one matrix of each kind; both may be computed in low precision (low_precision_linear.h).
//
// Where an adapter drops some of its input (adapter_dropout.h), `beside` is added to each product, row by row with it.
//
// Products are cut into rows, so that some travel while others are computed; the cut is the same whether they do or
// not.
#pragma once

#include "engine/model/layers/activations.h"
#include "engine/model/layers/adapter_dropout.h"
#include "engine/model/precision/low_precision_linear.h"
#include "engine/parallel/tensor/tensor_parallel.h"

namespace longhaul {

class ParallelLinear {
 public:
  // Borrowed: the group and the memory of what is gathered and summed.
  ParallelLinear(TensorParallel& tensor, Activations& activations, std::int64_t hidden, LowPrecisionLinear column,
                 LowPrecisionLinear row)
      : tensor_(tensor), activations_(activations), hidden_(hidden), column_(column), row_(row) {}

  std::int64_t rows(std::int64_t tokens) const { return tensor_.rows(tokens); }

  // y [t, out] = x W^T (+ bias [out]); x [r, h], W [out, h] the rows of this rank.
  void column_parallel(const ComputeContext& context, std::int64_t tokens, std::int64_t out, View x, ConstView weight,
                       View y, ConstView bias = {}, const AdapterAddend& beside = {});
  // before [t, out] = that with a bias, y [t, out] = gelu of it (linear_gelu.h).
  void column_parallel_gelu(const ComputeContext& context, std::int64_t tokens, std::int64_t out, View x,
                            ConstView weight, ConstView bias, View before, View y, const AdapterAddend& beside = {});
  // y [r, h] = x W^T summed over the ranks; x [t, in], W [h, in] the columns of this one.
  void row_parallel(const ComputeContext& context, std::int64_t tokens, std::int64_t in, View x, ConstView weight,
                    View y, const AdapterAddend& beside = {});

  // dx [t, in] = dy W of a row-parallel one; dy [r, h]. kept [t, h]: all rows of dy, for the weights' backward. before
  // [t, in], where x was gelu of it: dx times GELU's slope there.
  void row_parallel_backward(const ComputeContext& context, std::int64_t tokens, std::int64_t in, View dy,
                             ConstView weight, View kept, View dx, View before = {}, const AdapterAddend& beside = {});
  // dx [r, h] = dy W summed over the ranks, of a column-parallel one; dy [t, out]. The sum goes on when this returns:
  // dx is there after finish(), before which no other sum may start.
  void column_parallel_backward(const ComputeContext& context, std::int64_t tokens, std::int64_t out, View dy,
                                ConstView weight, View dx, const AdapterAddend& beside = {});
  void finish(const ComputeContext& context);

  // dW = or += dy^T x, and the same for the bias [out] where there is one. x of a column-parallel matrix: all_rows.
  // With `beside` what it writes takes the place of both: matrices that stay as they are have no gradient.
  void column_parallel_weight(const ComputeContext& context, std::int64_t tokens, std::int64_t out, ConstView dy,
                              ConstView x, View dweight, View dbias, bool accumulate,
                              const AdapterAddend& beside = {}) {
    if (beside.drops()) return beside.backward_weight(context, dy, x, dweight, accumulate);
    column_.backward_weight(context, {tokens, hidden_, out}, dy, x, dweight, dbias, accumulate);
  }
  void row_parallel_weight(const ComputeContext& context, std::int64_t tokens, std::int64_t in, ConstView dy,
                           ConstView x, View dweight, View dbias, bool accumulate, const AdapterAddend& beside = {}) {
    if (beside.drops()) return beside.backward_weight(context, dy, x, dweight, accumulate);
    row_.backward_weight(context, {tokens, in, hidden_}, dy, x, dweight, dbias, accumulate);
  }

  // All t rows of an activation of which this rank holds r; valid until column_parallel or another call. expect: they
  // will be asked for, and may come meanwhile.
  void expect_all_rows(const ComputeContext& context, View rows, std::int64_t tokens);
  View all_rows(View rows, std::int64_t tokens);

 private:
  TensorParallel& tensor_;
  Activations& activations_;
  std::int64_t hidden_;
  LowPrecisionLinear column_, row_;
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
