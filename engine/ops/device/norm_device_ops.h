// Norms over rows.
#pragma once

#include "engine/ops/device/device_op_group.h"
#include "engine/ops/pointwise/layernorm.h"
#include "engine/ops/pointwise/rmsnorm.h"

namespace longhaul {

class NormDeviceOps : public DeviceOpGroup {
 public:
  virtual void rmsnorm_forward(RmsNormShape shape, ConstView x, ConstView weight, View y, Floats inv_rms) const;
  virtual void rmsnorm_backward(RmsNormShape shape, ConstView dy, ConstView x, ConstView weight, ConstFloats inv_rms,
                                View dx, Floats dweight, bool accumulate_dx) const;
  virtual void add_rmsnorm_forward(RmsNormShape shape, ConstView a, ConstView b, ConstView weight, View sum, View y,
                                   Floats inv_rms) const;
  virtual void layernorm_forward(LayerNormShape shape, ConstView x, ConstView weight, ConstView bias, View y,
                                 Floats statistics) const;
  virtual void layernorm_backward(LayerNormShape shape, ConstView dy, ConstView x, ConstView weight,
                                  ConstFloats statistics, View dx, Floats dweight, Floats dbias,
                                  bool accumulate_dx) const;
  virtual void add_layernorm_forward(LayerNormShape shape, ConstView a, ConstView b, ConstView column_bias,
                                     ConstView weight, ConstView bias, View sum, View y, Floats statistics) const;
};

}  // namespace longhaul
