#include "engine/model/layers/adapter_dropout.h"

#include "engine/model/layers/model_dropout.h"
#include "engine/ops/linear/gemm.h"
#include "engine/ops/pointwise/elementwise.h"
#include "engine/ops/pointwise/row_blocks.h"

namespace longhaul {

namespace {
constexpr std::int64_t first_place = 1 << 15;  // behind those of the model itself (model_dropout.h)
}

AdapterAddend::AdapterAddend(AdapterDropout& dropout, const MicroBatch& batch, std::int64_t begin, std::int64_t out,
                             std::vector<LowRankMatrix> parts)
    : dropout_(&dropout), batch_(batch), begin_(begin), out_(out), parts_(std::move(parts)) {}

AdapterAddend::Factors AdapterAddend::factors_of(const ComputeContext& context, const LowRankMatrix& part) const {
  if (dropout_->factors_.size() == 0) return {part.a, part.b};
  const std::int64_t of_a = part.rank * part.in, of_b = part.out * part.rank;
  const View a = dropout_->factors_.view().rows(0, of_a), b = dropout_->factors_.view().rows(of_a, of_a + of_b);
  cast(context, part.a, a), cast(context, part.b, b);
  return {a, b};
}

void AdapterAddend::drop(const ComputeContext& context, const LowRankMatrix& part, std::int64_t first,
                         std::int64_t count, bool change, ConstView x, View out) const {
  DropoutMask mask;
  mask.rate = dropout_->rate_, mask.seed = dropout_->seed_, mask.place = first_place + part.number;
  mask.first_column = part.first_column, mask.row_columns = part.whole_in;
  const auto use = change ? dropout_change : dropout;
  for_each_neighbours(batch_, dropout_->shard_, first, first + count, mask,
                      [&](const DropoutMask& own, std::int64_t begin, std::int64_t end) {
                        const std::int64_t at = (begin - first) * part.in, rows = end - begin;
                        use(context, own, rows, part.in, elements_from(x, at), elements_from(out, at));
                      });
}

void AdapterAddend::forward(const ComputeContext& context, std::int64_t first, std::int64_t count, ConstView x,
                            View y) const {
  for (const LowRankMatrix& part : parts_) {
    const Factors factors = factors_of(context, part);
    drop(context, part, first, count, true, x, dropout_->rows_);
    GemmShape thin, wide;
    thin.m = wide.m = count, thin.n = wide.k = part.rank, thin.k = part.in, wide.n = part.out;
    thin.transpose_b = wide.transpose_b = true;
    wide.alpha = part.factor, wide.beta = 1, wide.row_stride_c = out_;
    gemm(context, thin, dropout_->rows_, factors.a, dropout_->thin_);
    gemm(context, wide, dropout_->thin_, factors.b, elements_from(y, column_of(part)));
  }
}

void AdapterAddend::backward_input(const ComputeContext& context, std::int64_t first, std::int64_t count, ConstView dy,
                                   View dx) const {
  for (const LowRankMatrix& part : parts_) {
    const Factors factors = factors_of(context, part);
    GemmShape thin, wide;
    thin.m = wide.m = count, thin.n = wide.k = part.rank, thin.k = part.out, wide.n = part.in;
    thin.alpha = part.factor, thin.row_stride_a = out_;
    gemm(context, thin, elements_from(dy, column_of(part)), factors.b, dropout_->thin_);
    const View rows = elements_from(dropout_->rows_.view(), 0).rows(0, count * part.in);
    gemm(context, wide, dropout_->thin_, factors.a, rows);
    drop(context, part, first, count, true, rows, rows);
    const View sum = elements_from(dx, 0).rows(0, count * part.in);
    if (sum.dtype() == rows.dtype())
      add(context, sum, rows, sum);
    else
      add_rows(context, {count, part.in, part.in, part.in}, rows, sum.span<float>());
  }
}

void AdapterAddend::backward_weight(const ComputeContext& context, ConstView dy, ConstView x, View dweight,
                                    bool accumulate) const {
  for (const LowRankMatrix& part : parts_) {
    drop(context, part, 0, batch_.tokens(), false, x, dropout_->rows_);
    GemmShape product;
    product.m = part.out, product.n = part.in, product.k = batch_.tokens();
    product.transpose_a = true, product.row_stride_a = out_;
    product.beta = accumulate ? 1.0F : 0.0F;
    gemm(context, product, elements_from(dy, column_of(part)), dropout_->rows_,
         elements_from(dweight, part.begin - begin_));
  }
}

AdapterDropout::AdapterDropout(WeightSource& adapter, std::uint64_t seed, const ContextShard& shard, DType dtype,
                               std::int64_t tokens_max, MemoryAccount* memory)
    : adapter_(adapter), rate_(adapter.dropout().rate), seed_(seed), shard_(shard) {
  const LowRankDropout here = adapter.dropout();
  rows_ = Tensor(dtype, Shape{tokens_max * here.in}, memory);
  thin_ = Tensor(dtype, Shape{tokens_max * here.rank}, memory);
  if (dtype != DType::f32) factors_ = Tensor(dtype, Shape{here.factors}, memory);
}

AdapterAddend AdapterDropout::addend(AdapterDropout* dropout, const MicroBatch& batch, std::int64_t begin,
                                     std::int64_t out, std::int64_t in) {
  if (!dropout || batch.first_sequence < 0) return {};
  return {*dropout, batch, begin, out, dropout->adapter_.dropping(begin, begin + out * in)};
}

}  // namespace longhaul
