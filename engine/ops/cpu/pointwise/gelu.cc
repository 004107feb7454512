#include "engine/ops/pointwise/gelu.h"

#include "engine/core/tensor/parallel_for.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cpu/simd/kernels.h"
#include "engine/ops/device_ops.h"

namespace longhaul {
namespace {
constexpr cpu::Index kGrain = 4096;  // elements
}

void gelu_forward(const ComputeContext& context, ConstView x, View y) {
  if (const DeviceOps* device = context.device_ops()) return device->gelu_forward(x, y);
  using cpu::Index;
  const Index n = y.size();
  cpu::with_float_type(x.dtype(), "gelu", [&](auto type) {
    using T = decltype(type);
    const T* px = cpu::elements<T>(x, n, "x");
    T* py = cpu::elements<T>(y, n, "y");
    parallel_for(context, n, kGrain, [&](Index begin, Index end) {
      cpu::kernels(context).of<T>().gelu_forward(px + begin, py + begin, end - begin);
    });
  });
}

void gelu_backward(const ComputeContext& context, ConstView dy, ConstView x, View dx) {
  if (const DeviceOps* device = context.device_ops()) return device->gelu_backward(dy, x, dx);
  using cpu::Index;
  const Index n = dx.size();
  cpu::with_float_type(x.dtype(), "gelu", [&](auto type) {
    using T = decltype(type);
    const T* pdy = cpu::elements<T>(dy, n, "dy");
    const T* px = cpu::elements<T>(x, n, "x");
    T* pdx = cpu::elements<T>(dx, n, "dx");
    parallel_for(context, n, kGrain, [&](Index begin, Index end) {
      cpu::kernels(context).of<T>().gelu_backward(pdy + begin, px + begin, pdx + begin, end - begin);
    });
  });
}

}  // namespace longhaul
