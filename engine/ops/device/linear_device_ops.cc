#include "engine/ops/device/linear_device_ops.h"

namespace longhaul {

void LinearDeviceOps::gemm(const GemmShape&, ConstView, ConstView, View) const {
  missing("gemm");
}
void LinearDeviceOps::linear_forward(LinearShape, ConstView, ConstView, View, ConstView) const {
  missing("linear_forward");
}
void LinearDeviceOps::linear_backward_input(LinearShape, ConstView, ConstView, View, bool) const {
  missing("linear_backward_input");
}
void LinearDeviceOps::linear_backward_weight(LinearShape, ConstView, ConstView, View, View, bool) const {
  missing("linear_backward_weight");
}
void LinearDeviceOps::linear_backward_bias(LinearShape, ConstView, View, bool) const {
  missing("linear_backward_bias");
}
void LinearDeviceOps::gemv(LinearShape, ConstView, ConstView, View) const {
  missing("gemv");
}
void LinearDeviceOps::linear_forward_int8(LinearShape, ConstView, ConstView, ConstFloats, View) const {
  missing("linear_forward_int8");
}
void LinearDeviceOps::linear_forward_fp8(LinearShape, ConstView, ConstView, ConstFloats, View) const {
  missing("linear_forward_fp8");
}
void LinearDeviceOps::linear_forward_int4(LinearShape, ConstView, const Int4View&, View) const {
  missing("linear_forward_int4");
}
void LinearDeviceOps::decode_blocks(const CodedBlocks&, View) const {
  missing("decode_blocks");
}
void LinearDeviceOps::quantize_blocks(std::int64_t, std::int64_t, const BlockQuantization&, ConstView, View,
                                      QuantizationSums*) const {
  missing("quantize_blocks");
}
void LinearDeviceOps::quantize_tensor(NumberFormat, float, ConstView, View, QuantizationSums*) const {
  missing("quantize_tensor");
}
float LinearDeviceOps::largest_magnitude(ConstView) const {
  missing("largest_magnitude");
}
void LinearDeviceOps::embedding_int8(LinearShape, Ids, ConstView, ConstFloats, View) const {
  missing("embedding_int8");
}
void LinearDeviceOps::linear_gelu_forward(LinearShape, ConstView, ConstView, ConstView, View, View) const {
  missing("linear_gelu_forward");
}
void LinearDeviceOps::linear_gelu_backward(LinearShape, ConstView, ConstView, ConstView, View) const {
  missing("linear_gelu_backward");
}
void LinearDeviceOps::linear_relu_forward(LinearShape, ConstView, ConstView, ConstView, View) const {
  missing("linear_relu_forward");
}
void LinearDeviceOps::linear_relu_backward(LinearShape, ConstView, ConstView, ConstView, View) const {
  missing("linear_relu_backward");
}
Fp8Support LinearDeviceOps::fp8_support() const {
  return {.why_not = "this device has no products of eight bits"};
}
std::string LinearDeviceOps::fp8_refusal(const Fp8Product&, const Fp8Operands&, ConstView) const {
  return fp8_support().why_not;
}
void LinearDeviceOps::fp8_cast(const Fp8Cast&, ConstView, View, View) const {
  missing("fp8_cast");
}
void LinearDeviceOps::fp8_keep_amax(ConstView, View) const {
  missing("fp8_keep_amax");
}
void LinearDeviceOps::fp8_tensor_scale(NumberFormat, int, ConstView, View) const {
  missing("fp8_tensor_scale");
}
void LinearDeviceOps::fp8_product(const Fp8Product&, const Fp8Operands&, View, ConstView) const {
  missing("fp8_product");
}

}  // namespace longhaul
