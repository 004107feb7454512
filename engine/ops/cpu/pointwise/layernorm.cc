#include "engine/ops/pointwise/layernorm.h"

#include <algorithm>

#include "engine/core/tensor/parallel_for.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cpu/simd/kernels.h"
#include "engine/ops/device_ops.h"

namespace longhaul {
namespace {

using cpu::Index;
constexpr Index kGrainRows = 16;
constexpr Index kChunkRows = 128;  // of one partial gradient of weight and bias

float* statistics_of(std::span<float> statistics, Index row) {
  return statistics.empty() ? nullptr : statistics.data() + 2 * row;
}

}  // namespace

void layernorm_forward(const ComputeContext& context, LayerNormShape shape, ConstView x, ConstView weight,
                       ConstView bias, View y, std::span<float> statistics) {
  if (const DeviceOps* device = context.device_ops())
    return device->layernorm_forward(shape, x, weight, bias, y, statistics);
  const Index n = shape.tokens * shape.hidden;
  if (!statistics.empty()) cpu::check_size(statistics.size(), 2 * shape.tokens, "statistics");
  cpu::with_float_type(x.dtype(), "layernorm", [&](auto type) {
    using T = decltype(type);
    const T* px = cpu::elements<T>(x, n, "x");
    const T* pw = cpu::elements<T>(weight, shape.hidden, "weight");
    const T* pb = cpu::elements<T>(bias, shape.hidden, "bias");
    T* py = cpu::elements<T>(y, n, "y");
    parallel_for(context, shape.tokens, kGrainRows, [&](Index begin, Index end) {
      const Index at = begin * shape.hidden;
      cpu::kernels(context).of<T>().layernorm_forward(px + at, pw, pb, py + at, statistics_of(statistics, begin),
                                                      end - begin, shape.hidden, shape.eps);
    });
  });
}

void add_layernorm_forward(const ComputeContext& context, LayerNormShape shape, ConstView a, ConstView b,
                           ConstView column_bias, ConstView weight, ConstView bias, View sum, View y,
                           std::span<float> statistics) {
  if (const DeviceOps* device = context.device_ops())
    return device->add_layernorm_forward(shape, a, b, column_bias, weight, bias, sum, y, statistics);
  const Index n = shape.tokens * shape.hidden;
  if (!statistics.empty()) cpu::check_size(statistics.size(), 2 * shape.tokens, "statistics");
  cpu::with_float_type(a.dtype(), "add_layernorm", [&](auto type) {
    using T = decltype(type);
    const T* pa = cpu::elements<T>(a, n, "a");
    const T* pb = cpu::elements<T>(b, n, "b");
    const T* pc = column_bias.empty() ? nullptr : cpu::elements<T>(column_bias, shape.hidden, "column_bias");
    const T* pw = cpu::elements<T>(weight, shape.hidden, "weight");
    const T* pbias = cpu::elements<T>(bias, shape.hidden, "bias");
    T* ps = cpu::elements<T>(sum, n, "sum");
    T* py = cpu::elements<T>(y, n, "y");
    parallel_for(context, shape.tokens, kGrainRows, [&](Index begin, Index end) {
      const Index at = begin * shape.hidden;
      cpu::kernels(context).of<T>().add_layernorm_forward(pa + at, pb + at, pc, pw, pbias, ps + at, py + at,
                                                          statistics_of(statistics, begin), end - begin, shape.hidden,
                                                          shape.eps);
    });
  });
}

void layernorm_backward(const ComputeContext& context, LayerNormShape shape, ConstView dy, ConstView x,
                        ConstView weight, std::span<const float> statistics, View dx, std::span<float> dweight,
                        std::span<float> dbias, bool accumulate_dx) {
  if (const DeviceOps* device = context.device_ops())
    return device->layernorm_backward(shape, dy, x, weight, statistics, dx, dweight, dbias, accumulate_dx);
  const Index n = shape.tokens * shape.hidden, hidden = shape.hidden;
  const Index chunks = (shape.tokens + kChunkRows - 1) / kChunkRows;
  cpu::check_size(statistics.size(), 2 * shape.tokens, "statistics");
  LH_ASSERT(dweight.empty() == dbias.empty(), "the gradients of weight and bias come together");
  float* parts = nullptr;  // of each chunk: dweight, dbias
  if (!dweight.empty()) {
    cpu::check_size(dweight.size(), hidden, "dweight");
    cpu::check_size(dbias.size(), hidden, "dbias");
    parts = reinterpret_cast<float*>(context.scratch(1, 2 * chunks * hidden * 4));
    std::fill(parts, parts + 2 * chunks * hidden, 0.0F);
  }
  cpu::with_float_type(x.dtype(), "layernorm", [&](auto type) {
    using T = decltype(type);
    const T* pdy = cpu::elements<T>(dy, n, "dy");
    const T* px = cpu::elements<T>(x, n, "x");
    const T* pw = cpu::elements<T>(weight, hidden, "weight");
    T* pdx = cpu::elements<T>(dx, n, "dx");
    parallel_chunks(context, shape.tokens, kChunkRows, [&](Index begin, Index end) {
      const Index at = begin * hidden;
      float* part = parts == nullptr ? nullptr : parts + begin / kChunkRows * 2 * hidden;
      cpu::kernels(context).of<T>().layernorm_backward(pdy + at, px + at, pw, statistics.data() + 2 * begin, pdx + at,
                                                       part, part == nullptr ? nullptr : part + hidden, end - begin,
                                                       hidden, accumulate_dx);
    });
  });
  if (parts == nullptr) return;
  for (Index i = 0; i < chunks; ++i) {
    cpu::kernels(context).axpy(1.0F, parts + 2 * i * hidden, dweight.data(), hidden);
    cpu::kernels(context).axpy(1.0F, parts + (2 * i + 1) * hidden, dbias.data(), hidden);
  }
}

}  // namespace longhaul
