#include "engine/ops/device/norm_device_ops.h"

namespace longhaul {

void NormDeviceOps::rmsnorm_forward(RmsNormShape, ConstView, ConstView, View, Floats) const {
  missing("rmsnorm_forward");
}
void NormDeviceOps::rmsnorm_backward(RmsNormShape, ConstView, ConstView, ConstView, ConstFloats, View, Floats,
                                     bool) const {
  missing("rmsnorm_backward");
}
void NormDeviceOps::add_rmsnorm_forward(RmsNormShape, ConstView, ConstView, ConstView, View, View, Floats) const {
  missing("add_rmsnorm_forward");
}
void NormDeviceOps::layernorm_forward(LayerNormShape, ConstView, ConstView, ConstView, View, Floats) const {
  missing("layernorm_forward");
}
void NormDeviceOps::layernorm_backward(LayerNormShape, ConstView, ConstView, ConstView, ConstFloats, View, Floats,
                                       Floats, bool) const {
  missing("layernorm_backward");
}
void NormDeviceOps::add_layernorm_forward(LayerNormShape, ConstView, ConstView, ConstView, ConstView, ConstView, View,
                                          View, Floats) const {
  missing("add_layernorm_forward");
}

}  // namespace longhaul
