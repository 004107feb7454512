// Products, with weights of all formats, and numbers of few bits on a GPU.
#pragma once

#include <string>

#include "engine/ops/cuda/libraries/device_gemm.h"
#include "engine/ops/cuda/operations/cuda_work.h"
#include "engine/ops/device/linear_device_ops.h"
#include "engine/ops/device/pointwise_device_ops.h"

namespace longhaul::cuda {

class CudaLinearOps : public virtual LinearDeviceOps {
 public:
  // Borrowed: work, gemm, pointwise.
  CudaLinearOps(const CudaWork& work, DeviceGemm& gemm, const PointwiseDeviceOps& pointwise)
      : work_(work), gemm_(gemm), pointwise_(pointwise) {}

  void gemm(const GemmShape& shape, ConstView a, ConstView b, View c) const override;
  void linear_forward(LinearShape shape, ConstView x, ConstView weight, View y, ConstView bias) const override;
  void linear_backward_input(LinearShape shape, ConstView dy, ConstView weight, View dx,
                             bool accumulate) const override;
  void linear_backward_weight(LinearShape shape, ConstView dy, ConstView x, View dweight, View dbias,
                              bool accumulate) const override;
  void linear_backward_bias(LinearShape shape, ConstView dy, View dbias, bool accumulate) const override;
  void gemv(LinearShape shape, ConstView x, ConstView weight, View y) const override;
  void linear_forward_int8(LinearShape shape, ConstView x, ConstView q, ConstFloats scales, View y) const override;
  void embedding_int8(LinearShape shape, Ids ids, ConstView q, ConstFloats scales, View out) const override;
  void linear_forward_fp8(LinearShape shape, ConstView x, ConstView codes, ConstFloats scales, View y) const override;
  void linear_forward_int4(LinearShape shape, ConstView x, const Int4View& weight, View y) const override;
  void decode_blocks(const CodedBlocks& from, View out) const override;
  void quantize_blocks(std::int64_t rows, std::int64_t columns, const BlockQuantization& how, ConstView x, View y,
                       QuantizationSums* sums) const override;
  void quantize_tensor(NumberFormat format, float scale, ConstView x, View y, QuantizationSums* sums) const override;
  float largest_magnitude(ConstView x) const override;
  void linear_gelu_forward(LinearShape shape, ConstView x, ConstView weight, ConstView bias, View before,
                           View y) const override;
  void linear_gelu_backward(LinearShape shape, ConstView dy, ConstView weight, ConstView before,
                            View dx) const override;
  void linear_relu_forward(LinearShape shape, ConstView x, ConstView weight, ConstView bias, View y) const override;
  void linear_relu_backward(LinearShape shape, ConstView dy, ConstView weight, ConstView y, View dx) const override;
  Fp8Support fp8_support() const override;
  std::string fp8_refusal(const Fp8Product& shape, const Fp8Operands& operands, ConstView c) const override;
  void fp8_cast(const Fp8Cast& how, ConstView x, View codes, View scales) const override;
  void fp8_keep_amax(ConstView x, View amax) const override;
  void fp8_tensor_scale(NumberFormat format, int margin, ConstView amax, View scale) const override;
  void fp8_product(const Fp8Product& shape, const Fp8Operands& operands, View c, ConstView bias) const override;

 private:
  void take_sums(std::int64_t count, double* parts, QuantizationSums& sums) const;

  const CudaWork& work_;
  DeviceGemm& gemm_;
  const PointwiseDeviceOps& pointwise_;
};

}  // namespace longhaul::cuda
