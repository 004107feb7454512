#include "engine/ops/linear/linear_gelu.h"

#include "engine/ops/device_ops.h"
#include "engine/ops/pointwise/gelu.h"

namespace longhaul {

void linear_gelu_forward(const ComputeContext& context, LinearShape shape, ConstView x, ConstView weight,
                         ConstView bias, View before, View y) {
  if (const DeviceOps* device = context.device_ops())
    return device->linear_gelu_forward(shape, x, weight, bias, before, y);
  linear_forward(context, shape, x, weight, before, bias);
  gelu_forward(context, before, y);
}

void linear_gelu_backward(const ComputeContext& context, LinearShape shape, ConstView dy, ConstView weight,
                          ConstView before, View dx) {
  if (const DeviceOps* device = context.device_ops())
    return device->linear_gelu_backward(shape, dy, weight, before, dx);
  linear_backward_input(context, shape, dy, weight, dx);
  gelu_backward(context, dx, before, dx);
}

}  // namespace longhaul
