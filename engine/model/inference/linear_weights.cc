#include "engine/model/inference/linear_weights.h"

#include "engine/ops/attention/kv_table.h"
#include "engine/ops/linear/gemm.h"
#include "engine/ops/linear/gemv.h"
#include "engine/ops/linear/weight_only.h"
#include "engine/ops/pointwise/embedding.h"

namespace longhaul {

LinearWeights::LinearWeights(DenseWeights weights) : weights_(std::move(weights)) {
  const Shape& shape = dense()->weight.shape();
  out_ = shape[0], in_ = shape[1];
}

LinearWeights::LinearWeights(Int8Weights weights) : weights_(std::move(weights)) {
  const Shape& shape = int8()->q.shape();
  out_ = shape[0], in_ = shape[1];
  LH_ASSERT(int8()->scales.size() == out_, shape.text());
}

LinearWeights::LinearWeights(Fp8Weights weights) : weights_(std::move(weights)) {
  const Shape& shape = fp8()->codes.shape();
  out_ = shape[0], in_ = shape[1];
  LH_ASSERT(fp8()->scales.size() == out_, shape.text());
}

LinearWeights::LinearWeights(Int4Weights weights) : weights_(std::move(weights)) {
  out_ = int4()->packed.shape()[0], in_ = int4()->in;
  LH_ASSERT(int4()->packed.shape()[1] == int4_row_bytes(in_), int4()->packed.shape().text());
  LH_ASSERT(int4()->scales.size() == out_ * int4_groups(in_, int4()->group), int4()->scales.shape().text());
}

std::int64_t LinearWeights::bytes() const {
  if (const Fp8Weights* w = fp8()) return w->codes.bytes() + w->scales.bytes();
  if (const Int4Weights* w = int4()) return w->packed.bytes() + w->scales.bytes();
  if (const DenseWeights* w = dense()) return w->weight.bytes() + w->bias.bytes();
  return int8()->q.bytes() + int8()->scales.bytes();
}

void LinearWeights::apply(const ComputeContext& context, std::int64_t tokens, ConstView x, View y) const {
  const LinearShape shape{tokens, in_, out_};
  if (const Fp8Weights* w = fp8()) return linear_forward_fp8(context, shape, x, w->codes, w->scales.span<float>(), y);
  if (const Int4Weights* w = int4())
    return linear_forward_int4(context, shape, x, {w->packed, w->scales, {}, w->group}, y);
  if (const DenseWeights* w = dense())
    linear_forward(context, shape, x, w->weight, y, w->bias.size() > 0 ? w->bias.view() : ConstView());
  else
    linear_forward_int8(context, shape, x, int8()->q, int8()->scales.span<float>(), y);
}

void LinearWeights::gather_rows(const ComputeContext& context, std::span<const std::int32_t> ids, View out) const {
  const auto tokens = static_cast<std::int64_t>(ids.size());
  LH_ASSERT(dense() != nullptr || int8() != nullptr, "rows of a table that is neither dense nor int8");
  if (const DenseWeights* w = dense())
    embedding_forward(context, {tokens, out_, in_}, ids, w->weight, out);
  else
    embedding_int8(context, {tokens, in_, out_}, ids, int8()->q, int8()->scales.span<float>(), out);
}

}  // namespace longhaul
