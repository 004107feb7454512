// Products, with weights of all formats, and numbers of few bits.
#pragma once

#include <string>

#include "engine/ops/device/device_op_group.h"
#include "engine/ops/linear/coded_blocks.h"
#include "engine/ops/linear/fp8.h"
#include "engine/ops/linear/gemm.h"
#include "engine/ops/linear/quantize_blocks.h"
#include "engine/ops/linear/weight_only.h"

namespace longhaul {

class LinearDeviceOps : public DeviceOpGroup {
 public:
  virtual void gemm(const GemmShape& shape, ConstView a, ConstView b, View c) const;
  virtual void linear_forward(LinearShape shape, ConstView x, ConstView weight, View y, ConstView bias) const;
  virtual void linear_backward_input(LinearShape shape, ConstView dy, ConstView weight, View dx, bool accumulate) const;
  virtual void linear_backward_weight(LinearShape shape, ConstView dy, ConstView x, View dweight, View dbias,
                                      bool accumulate) const;
  virtual void linear_backward_bias(LinearShape shape, ConstView dy, View dbias, bool accumulate) const;
  virtual void gemv(LinearShape shape, ConstView x, ConstView weight, View y) const;
  virtual void linear_forward_int8(LinearShape shape, ConstView x, ConstView q, ConstFloats scales, View y) const;
  virtual void linear_forward_fp8(LinearShape shape, ConstView x, ConstView codes, ConstFloats scales, View y) const;
  virtual void linear_forward_int4(LinearShape shape, ConstView x, const Int4View& weight, View y) const;
  virtual void decode_blocks(const CodedBlocks& from, View out) const;
  virtual void quantize_blocks(std::int64_t rows, std::int64_t columns, const BlockQuantization& how, ConstView x,
                               View y, QuantizationSums* sums) const;
  virtual void quantize_tensor(NumberFormat format, float scale, ConstView x, View y, QuantizationSums* sums) const;
  virtual float largest_magnitude(ConstView x) const;
  virtual void embedding_int8(LinearShape shape, Ids ids, ConstView q, ConstFloats scales, View out) const;
  virtual void linear_gelu_forward(LinearShape shape, ConstView x, ConstView weight, ConstView bias, View before,
                                   View y) const;
  virtual void linear_gelu_backward(LinearShape shape, ConstView dy, ConstView weight, ConstView before, View dx) const;
  virtual void linear_relu_forward(LinearShape shape, ConstView x, ConstView weight, ConstView bias, View y) const;
  virtual void linear_relu_backward(LinearShape shape, ConstView dy, ConstView weight, ConstView y, View dx) const;
  virtual Fp8Support fp8_support() const;  // none
  virtual std::string fp8_refusal(const Fp8Product& shape, const Fp8Operands& operands, ConstView c) const;
  virtual void fp8_cast(const Fp8Cast& how, ConstView x, View codes, View scales) const;
  virtual void fp8_keep_amax(ConstView x, View amax) const;
  virtual void fp8_tensor_scale(NumberFormat format, int margin, ConstView amax, View scale) const;
  virtual void fp8_product(const Fp8Product& shape, const Fp8Operands& operands, View c, ConstView bias) const;
};

}  // namespace longhaul
