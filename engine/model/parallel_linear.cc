#include "engine/model/parallel_linear.h"

#include "engine/ops/elementwise.h"
#include "engine/ops/gemm.h"

namespace longhaul {

View columns_of(View rows, std::int64_t tokens, std::int64_t begin, std::int64_t columns) {
  auto* bytes = static_cast<std::byte*>(rows.data()) + begin * dtype_bytes(rows.dtype());
  return View(bytes, rows.dtype(), Shape{(tokens - 1) * rows.shape()[-1] + columns});
}

View ParallelLinear::all_rows(View rows, std::int64_t tokens) {
  if (!tensor_.sequence()) return rows;
  const View all = activations_.workspace().full;
  tensor_.gather_rows(rows, tokens, hidden_, all);
  return all;
}

void ParallelLinear::keep_all_rows(const ComputeContext& context, View rows, std::int64_t tokens, View out) {
  if (tensor_.sequence())
    tensor_.gather_rows(rows, tokens, hidden_, out);
  else
    cast(context, first_rows(rows, tokens), first_rows(out, tokens));
}

void ParallelLinear::row_parallel(const ComputeContext& context, std::int64_t tokens, std::int64_t in, View x,
                                  ConstView weight, View y) {
  if (!tensor_.splits()) return linear_forward(context, {tokens, in, hidden_}, x, weight, y);
  const View partial = first_rows(activations_.workspace().partial, tokens);
  linear_forward(context, {tokens, in, hidden_}, x, weight, partial);
  tensor_.sum_rows(context, partial, tokens, hidden_, y);
}

void ParallelLinear::column_parallel_backward(const ComputeContext& context, std::int64_t tokens, std::int64_t out,
                                              View dy, ConstView weight, View dx) {
  if (!tensor_.splits()) return linear_backward_input(context, {tokens, hidden_, out}, dy, weight, dx);
  const View partial = first_rows(activations_.workspace().partial, tokens);
  linear_backward_input(context, {tokens, hidden_, out}, dy, weight, partial);
  tensor_.sum_rows(context, partial, tokens, hidden_, dx);
}

}  // namespace longhaul
