#include "engine/model/layers/scalar_head.h"

#include "engine/ops/linear/gemm.h"
#include "engine/ops/pointwise/elementwise.h"

namespace longhaul {

void scalar_head_forward(const ComputeContext& context, const ScalarHeadShape& shape, ConstView x, ConstView weight,
                         std::span<float> scores) {
  GemmShape product{.m = shape.tokens, .n = shape.labels, .k = shape.hidden};
  product.transpose_b = true;
  gemm(context, product, x, weight, View(scores.data(), Shape{shape.tokens, shape.labels}));
}

void scalar_head_backward(const ComputeContext& context, const ScalarHeadShape& shape, ConstView x, ConstView weight,
                          std::span<const float> weights, View scratch, View dx, View dweight) {
  const ConstView given(weights.data(), Shape{shape.tokens, shape.labels});
  const View rounded(scratch.data(), x.dtype(), Shape{shape.tokens, shape.labels});
  cast(context, given, rounded);
  const std::int64_t rows = dx.shape()[0];
  linear_backward_input(context, {rows, shape.hidden, shape.labels}, rounded.rows(shape.first, shape.first + rows),
                        weight, dx);
  const LinearShape layer{shape.tokens, shape.hidden, shape.labels};
  if (!dweight.empty()) linear_backward_weight(context, layer, rounded, x, dweight, {}, shape.accumulate);
}

}  // namespace longhaul
