#include "engine/model/linear_weights.h"

#include <cstring>

#include "engine/ops/gemm.h"
#include "engine/ops/gemv.h"
#include "engine/ops/weight_only.h"

namespace longhaul {

LinearWeights::LinearWeights(DenseWeights weights) : weights_(std::move(weights)) {
  const Shape& shape = dense()->weight.shape();
  out_ = shape[0], in_ = shape[1];
}

LinearWeights::LinearWeights(Int8Weights weights) : weights_(std::move(weights)) {
  const Shape& shape = int8()->q.shape();
  out_ = shape[0], in_ = shape[1];
  LH_ASSERT(static_cast<std::int64_t>(int8()->scales.size()) == out_, shape.text());
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
  return int8()->q.bytes() + static_cast<std::int64_t>(int8()->scales.size() * sizeof(float));
}

void LinearWeights::apply(const ComputeContext& context, std::int64_t tokens, ConstView x, View y) const {
  const LinearShape shape{tokens, in_, out_};
  if (const Fp8Weights* w = fp8()) return linear_forward_fp8(context, shape, x, w->codes, w->scales.span<float>(), y);
  if (const Int4Weights* w = int4())
    return linear_forward_int4(context, shape, x, {w->packed, w->scales, {}, w->group}, y);
  if (const DenseWeights* w = dense())
    linear_forward(context, shape, x, w->weight, y, w->bias.size() > 0 ? w->bias.view() : ConstView());
  else
    linear_forward_int8(context, shape, x, int8()->q, int8()->scales, y);
}

namespace {

template <class T>
void dequantize_rows(const Int8Weights& weights, std::int64_t in, std::span<const std::int32_t> ids, std::span<T> out) {
  const std::int8_t* q = weights.q.view().as<std::int8_t>();
  for (std::size_t t = 0; t < ids.size(); ++t) {
    const float scale = weights.scales[static_cast<std::size_t>(ids[t])];
    for (std::int64_t i = 0; i < in; ++i)
      out[t * static_cast<std::size_t>(in) + static_cast<std::size_t>(i)] =
          static_cast<T>(scale * static_cast<float>(q[ids[t] * in + i]));
  }
}

}  // namespace

void LinearWeights::gather_rows(const ComputeContext&, std::span<const std::int32_t> ids, View out) const {
  if (const DenseWeights* w = dense()) {
    LH_ASSERT(w->weight.dtype() == out.dtype(), "rows have the table's type");
    const std::int64_t row = in_ * dtype_bytes(out.dtype());
    const auto* from = static_cast<const std::byte*>(w->weight.view().data());
    auto* to = static_cast<std::byte*>(out.data());
    for (std::size_t t = 0; t < ids.size(); ++t)
      std::memcpy(to + static_cast<std::int64_t>(t) * row, from + ids[t] * row, static_cast<std::size_t>(row));
    return;
  }
  LH_ASSERT(int8() != nullptr, "rows of a table that is neither dense nor int8");
  const auto count = ids.size() * static_cast<std::size_t>(in_);
  if (out.dtype() == DType::f32)
    dequantize_rows<float>(*int8(), in_, ids, out.span<float>().first(count));
  else
    dequantize_rows<bf16>(*int8(), in_, ids, out.span<bf16>().first(count));
}

}  // namespace longhaul
