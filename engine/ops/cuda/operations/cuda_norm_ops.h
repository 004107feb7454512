// Norms over rows on a GPU.
#pragma once

#include "engine/ops/cuda/operations/cuda_work.h"
#include "engine/ops/device/norm_device_ops.h"

namespace longhaul::cuda {

class CudaNormOps : public virtual NormDeviceOps {
 public:
  // Borrowed: work.
  explicit CudaNormOps(const CudaWork& work) : work_(work) {}

  void rmsnorm_forward(RmsNormShape shape, ConstView x, ConstView weight, View y, Floats inv_rms) const override;
  void rmsnorm_backward(RmsNormShape shape, ConstView dy, ConstView x, ConstView weight, ConstFloats inv_rms, View dx,
                        Floats dweight, bool accumulate_dx) const override;
  void add_rmsnorm_forward(RmsNormShape shape, ConstView a, ConstView b, ConstView weight, View sum, View y,
                           Floats inv_rms) const override;
  void layernorm_forward(LayerNormShape shape, ConstView x, ConstView weight, ConstView bias, View y,
                         Floats statistics) const override;
  void layernorm_backward(LayerNormShape shape, ConstView dy, ConstView x, ConstView weight, ConstFloats statistics,
                          View dx, Floats dweight, Floats dbias, bool accumulate_dx) const override;
  void add_layernorm_forward(LayerNormShape shape, ConstView a, ConstView b, ConstView column_bias, ConstView weight,
                             ConstView bias, View sum, View y, Floats statistics) const override;

 private:
  const CudaWork& work_;
};

}  // namespace longhaul::cuda
