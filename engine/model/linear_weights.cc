#include "engine/model/linear_weights.h"

#include <cstring>

#include "engine/ops/gemm.h"
#include "engine/ops/gemv.h"

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

std::int64_t LinearWeights::bytes() const {
  if (const DenseWeights* w = dense()) return w->weight.bytes() + w->bias.bytes();
  return int8()->q.bytes() + static_cast<std::int64_t>(int8()->scales.size() * sizeof(float));
}

void LinearWeights::apply(const ComputeContext& context, std::int64_t tokens, ConstView x, View y) const {
  const LinearShape shape{tokens, in_, out_};
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
  const auto count = ids.size() * static_cast<std::size_t>(in_);
  if (out.dtype() == DType::f32)
    dequantize_rows<float>(*int8(), in_, ids, out.span<float>().first(count));
  else
    dequantize_rows<bf16>(*int8(), in_, ids, out.span<bf16>().first(count));
}

}  // namespace longhaul
