#include "engine/ops/linear/linear_relu.h"

#include "engine/core/tensor/parallel_for.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/device_ops.h"

namespace longhaul {
namespace {

// x = x where `kept` is above 0, else 0.
void keep_positive(const ComputeContext& context, ConstView kept, View x) {
  constexpr std::int64_t grain = 16384;  // elements
  const auto* const of = cpu::elements<float>(kept, x.size(), "kept");
  auto* const to = x.as<float>();
  parallel_for(context, x.size(), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) to[i] = of[i] > 0 ? to[i] : 0.0F;
  });
}

}  // namespace

void linear_relu_forward(const ComputeContext& context, LinearShape shape, ConstView x, ConstView weight,
                         ConstView bias, View y) {
  if (const DeviceOps* device = context.device_ops()) return device->linear_relu_forward(shape, x, weight, bias, y);
  linear_forward(context, shape, x, weight, y, bias);
  keep_positive(context, y, y);
}

void linear_relu_backward(const ComputeContext& context, LinearShape shape, ConstView dy, ConstView weight, ConstView y,
                          View dx) {
  if (const DeviceOps* device = context.device_ops()) return device->linear_relu_backward(shape, dy, weight, y, dx);
  linear_backward_input(context, shape, dy, weight, dx);
  keep_positive(context, y, dx);
}

}  // namespace longhaul
