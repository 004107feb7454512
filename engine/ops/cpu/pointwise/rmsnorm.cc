#include "engine/ops/pointwise/rmsnorm.h"

#include <algorithm>

#include "engine/core/tensor/parallel_for.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cpu/simd/kernels.h"
#include "engine/ops/device_ops.h"

namespace longhaul {
namespace {

using cpu::Index;
constexpr Index kGrainRows = 16;
constexpr Index kChunkRows = 128;  // of one partial weight gradient

float* row_or_null(std::span<float> values, Index row) {
  return values.empty() ? nullptr : values.data() + row;
}

}  // namespace

void rmsnorm_forward(const ComputeContext& context, RmsNormShape shape, ConstView x, ConstView weight, View y,
                     std::span<float> inv_rms) {
  if (const DeviceOps* device = context.device_ops()) return device->rmsnorm_forward(shape, x, weight, y, inv_rms);
  const Index n = shape.tokens * shape.hidden;
  if (!inv_rms.empty()) cpu::check_size(inv_rms.size(), shape.tokens, "inv_rms");
  cpu::with_float_type(x.dtype(), "rmsnorm", [&](auto type) {
    using T = decltype(type);
    const T* px = cpu::elements<T>(x, n, "x");
    const T* pw = cpu::elements<T>(weight, shape.hidden, "weight");
    T* py = cpu::elements<T>(y, n, "y");
    parallel_for(context, shape.tokens, kGrainRows, [&](Index begin, Index end) {
      cpu::kernels(context).of<T>().rmsnorm_forward(px + begin * shape.hidden, pw, py + begin * shape.hidden,
                                                    row_or_null(inv_rms, begin), end - begin, shape.hidden, shape.eps);
    });
  });
}

void add_rmsnorm_forward(const ComputeContext& context, RmsNormShape shape, ConstView a, ConstView b, ConstView weight,
                         View sum, View y, std::span<float> inv_rms) {
  if (const DeviceOps* device = context.device_ops())
    return device->add_rmsnorm_forward(shape, a, b, weight, sum, y, inv_rms);
  const Index n = shape.tokens * shape.hidden;
  if (!inv_rms.empty()) cpu::check_size(inv_rms.size(), shape.tokens, "inv_rms");
  cpu::with_float_type(a.dtype(), "add_rmsnorm", [&](auto type) {
    using T = decltype(type);
    const T* pa = cpu::elements<T>(a, n, "a");
    const T* pb = cpu::elements<T>(b, n, "b");
    const T* pw = cpu::elements<T>(weight, shape.hidden, "weight");
    T* ps = cpu::elements<T>(sum, n, "sum");
    T* py = cpu::elements<T>(y, n, "y");
    parallel_for(context, shape.tokens, kGrainRows, [&](Index begin, Index end) {
      const Index at = begin * shape.hidden;
      cpu::kernels(context).of<T>().add_rmsnorm_forward(
          pa + at, pb + at, pw, ps + at, py + at, row_or_null(inv_rms, begin), end - begin, shape.hidden, shape.eps);
    });
  });
}

void rmsnorm_backward(const ComputeContext& context, RmsNormShape shape, ConstView dy, ConstView x, ConstView weight,
                      std::span<const float> inv_rms, View dx, std::span<float> dweight, bool accumulate_dx) {
  if (const DeviceOps* device = context.device_ops())
    return device->rmsnorm_backward(shape, dy, x, weight, inv_rms, dx, dweight, accumulate_dx);
  const Index n = shape.tokens * shape.hidden, hidden = shape.hidden;
  const Index chunks = (shape.tokens + kChunkRows - 1) / kChunkRows;
  cpu::check_size(inv_rms.size(), shape.tokens, "inv_rms");
  float* parts = nullptr;
  if (!dweight.empty()) {
    cpu::check_size(dweight.size(), hidden, "dweight");
    parts = reinterpret_cast<float*>(context.scratch(1, chunks * hidden * 4));
    std::fill(parts, parts + chunks * hidden, 0.0F);
  }
  cpu::with_float_type(x.dtype(), "rmsnorm", [&](auto type) {
    using T = decltype(type);
    const T* pdy = cpu::elements<T>(dy, n, "dy");
    const T* px = cpu::elements<T>(x, n, "x");
    const T* pw = cpu::elements<T>(weight, hidden, "weight");
    T* pdx = cpu::elements<T>(dx, n, "dx");
    parallel_chunks(context, shape.tokens, kChunkRows, [&](Index begin, Index end) {
      const Index at = begin * hidden;
      cpu::kernels(context).of<T>().rmsnorm_backward(pdy + at, px + at, pw, inv_rms.data() + begin, pdx + at,
                                                     parts == nullptr ? nullptr : parts + begin / kChunkRows * hidden,
                                                     end - begin, hidden, accumulate_dx);
    });
  });
  if (parts == nullptr) return;
  for (Index i = 0; i < chunks; ++i) cpu::kernels(context).axpy(1.0F, parts + i * hidden, dweight.data(), hidden);
}

}  // namespace longhaul
