#include "engine/model/layers/parallel_linear.h"

#include "engine/ops/linear/gemm.h"
#include "engine/ops/linear/linear_gelu.h"
#include "engine/ops/pointwise/elementwise.h"
#include "engine/ops/pointwise/gelu.h"

namespace longhaul {

View columns_of(View rows, std::int64_t tokens, std::int64_t begin, std::int64_t columns) {
  auto* bytes = static_cast<std::byte*>(rows.data()) + begin * dtype_bytes(rows.dtype());
  return View(bytes, rows.dtype(), Shape{(tokens - 1) * rows.shape()[-1] + columns});
}

namespace {

// For each rank of the group its rows of x, this one's first: product(x, begin, end) with x its rows [begin, end) of t.
template <class Product>
void as_rows_come(const ComputeContext& context, TensorParallel& tensor, View local, std::int64_t tokens,
                  std::int64_t columns, View all, const Product& product) {
  RowGather& gather = tensor.needed();
  const std::int64_t r = tensor.rows(tokens);
  gather.start(context, local, r, columns, all, tensor.overlaps());
  for (int turn = 0; turn < tensor.size(); ++turn) {
    gather.wait(turn);
    const TraceSpan span(context.trace(), "product of gathered rows");
    const std::int64_t begin = gather.rank_of(turn) * r;
    product(turn == 0 ? first_rows(local, r) : all.rows(begin, begin + r), begin, begin + r);
    tensor.poll();
  }
  gather.finish();
}

// For each piece of a sum over the ranks: product(begin, end) writes those rows of the partial sum, which then travel.
template <class Product>
void as_rows_go(const ComputeContext& context, TensorParallel& tensor, std::int64_t tokens, const Product& product) {
  for (const RowRange& piece : tensor.pieces(tokens)) {
    const TraceSpan span(context.trace(), "product of rows to be summed");
    if (piece.count() > 0) product(piece.begin, piece.end);
    tensor.sum_under_way().give();
    tensor.poll();
  }
}

}  // namespace

void ParallelLinear::column_parallel(const ComputeContext& context, std::int64_t tokens, std::int64_t out, View x,
                                     ConstView weight, View y, ConstView bias, const AdapterAddend& beside) {
  column_.begin_forward(context, {tensor_.rows(tokens), hidden_, out}, x, weight);
  const auto product = [&](ConstView rows, std::int64_t begin, std::int64_t count, View result) {
    column_.forward(context, {count, hidden_, out}, rows, result, bias);
    beside.forward(context, begin, count, rows, result);
  };
  if (!tensor_.sequence()) return product(x, 0, tokens, y);
  as_rows_come(
      context, tensor_, x, tokens, hidden_, activations_.workspace().full,
      [&](View rows, std::int64_t begin, std::int64_t end) { product(rows, begin, end - begin, y.rows(begin, end)); });
}

void ParallelLinear::column_parallel_gelu(const ComputeContext& context, std::int64_t tokens, std::int64_t out, View x,
                                          ConstView weight, ConstView bias, View before, View y,
                                          const AdapterAddend& beside) {
  column_.begin_forward(context, {tensor_.rows(tokens), hidden_, out}, x, weight);
  const bool fused = column_.is_plain() && !beside.drops();
  const auto product = [&](ConstView rows, std::int64_t begin, std::int64_t count, View sum, View result) {
    const LinearShape shape{count, hidden_, out};
    if (fused) return linear_gelu_forward(context, shape, rows, column_.weight(), bias, sum, result);
    column_.forward(context, shape, rows, sum, bias);
    beside.forward(context, begin, count, rows, sum);
    gelu_forward(context, sum, result);
  };
  if (!tensor_.sequence()) return product(x, 0, tokens, first_rows(before, tokens), first_rows(y, tokens));
  as_rows_come(context, tensor_, x, tokens, hidden_, activations_.workspace().full,
               [&](View rows, std::int64_t begin, std::int64_t end) {
                 product(rows, begin, end - begin, before.rows(begin, end), y.rows(begin, end));
               });
}

void ParallelLinear::row_parallel(const ComputeContext& context, std::int64_t tokens, std::int64_t in, View x,
                                  ConstView weight, View y, const AdapterAddend& beside) {
  row_.begin_forward(context, {tokens, in, hidden_}, x, weight);
  const auto product = [&](ConstView rows, std::int64_t begin, std::int64_t count, View result) {
    row_.forward(context, {count, in, hidden_}, rows, result);
    beside.forward(context, begin, count, rows, result);
  };
  if (!tensor_.splits()) return product(x, 0, tokens, y);
  const Workspace& w = activations_.workspace();
  tensor_.start_sum(w.partial, w.landing, tokens, hidden_, y);
  as_rows_go(context, tensor_, tokens, [&](std::int64_t begin, std::int64_t end) {
    product(x.rows(begin, end), begin, end - begin, w.partial.rows(begin, end));
  });
  finish(context);
}

void ParallelLinear::row_parallel_backward(const ComputeContext& context, std::int64_t tokens, std::int64_t in, View dy,
                                           ConstView weight, View kept, View dx, View before,
                                           const AdapterAddend& beside) {
  row_.begin_backward_input(context, {tensor_.rows(tokens), in, hidden_}, dy, weight);
  const auto product = [&](ConstView rows, std::int64_t begin, std::int64_t end) {
    const LinearShape shape{end - begin, in, hidden_};
    const View result = dx.rows(begin, end);
    const ConstView sum = before.empty() ? ConstView() : before.rows(begin, end);
    if (!sum.empty() && row_.is_plain() && !beside.drops())
      return linear_gelu_backward(context, shape, rows, row_.weight(), sum, result);
    row_.backward_input(context, shape, rows, result);
    beside.backward_input(context, begin, end - begin, rows, result);
    if (!sum.empty()) gelu_backward(context, result, sum, result);
  };
  if (!tensor_.sequence()) {
    cast(context, first_rows(dy, tokens), first_rows(kept, tokens));
    return product(kept, 0, tokens);
  }
  as_rows_come(context, tensor_, dy, tokens, hidden_, kept, product);
}

void ParallelLinear::column_parallel_backward(const ComputeContext& context, std::int64_t tokens, std::int64_t out,
                                              View dy, ConstView weight, View dx, const AdapterAddend& beside) {
  column_.begin_backward_input(context, {tokens, hidden_, out}, dy, weight);
  const auto product = [&](ConstView rows, std::int64_t begin, std::int64_t count, View result) {
    column_.backward_input(context, {count, hidden_, out}, rows, result);
    beside.backward_input(context, begin, count, rows, result);
  };
  if (!tensor_.splits()) return product(dy, 0, tokens, dx);
  const Workspace& w = activations_.workspace();
  tensor_.start_sum(w.partial, w.landing, tokens, hidden_, dx);
  as_rows_go(context, tensor_, tokens, [&](std::int64_t begin, std::int64_t end) {
    product(dy.rows(begin, end), begin, end - begin, w.partial.rows(begin, end));
  });
}

void ParallelLinear::finish(const ComputeContext& context) {
  if (!tensor_.splits()) return;
  const TraceSpan span(context.trace(), "sum of rows");
  tensor_.sum_under_way().finish(context);
}

void ParallelLinear::expect_all_rows(const ComputeContext& context, View rows, std::int64_t tokens) {
  if (tensor_.sequence() && tensor_.overlaps())
    tensor_.ahead().start(context, rows, tensor_.rows(tokens), hidden_, activations_.workspace().full, true);
}

View ParallelLinear::all_rows(View rows, std::int64_t tokens) {
  if (!tensor_.sequence()) return rows;
  const View all = activations_.workspace().full;
  if (tensor_.ahead().under_way())
    tensor_.ahead().finish();
  else
    tensor_.gather_rows(rows, tokens, hidden_, all);
  return all;
}

}  // namespace longhaul
