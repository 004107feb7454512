#include "engine/ops/device_ops.h"

#include <cstdlib>

namespace longhaul {

void DeviceOps::missing(const char* operation) const {
  LH_ASSERT(false, std::string("this device has no operation ") + operation);
  std::abort();
}

void DeviceOps::gemm(const GemmShape&, ConstView, ConstView, View) const {
  missing("gemm");
}
void DeviceOps::linear_forward(LinearShape, ConstView, ConstView, View, ConstView) const {
  missing("linear_forward");
}
void DeviceOps::linear_backward_input(LinearShape, ConstView, ConstView, View, bool) const {
  missing("linear_backward_input");
}
void DeviceOps::linear_backward_weight(LinearShape, ConstView, ConstView, View, View, bool) const {
  missing("linear_backward_weight");
}
void DeviceOps::rmsnorm_forward(RmsNormShape, ConstView, ConstView, View, Floats) const {
  missing("rmsnorm_forward");
}
void DeviceOps::rmsnorm_backward(RmsNormShape, ConstView, ConstView, ConstView, ConstFloats, View, Floats, bool) const {
  missing("rmsnorm_backward");
}
void DeviceOps::add_rmsnorm_forward(RmsNormShape, ConstView, ConstView, ConstView, View, View, Floats) const {
  missing("add_rmsnorm_forward");
}
void DeviceOps::layernorm_forward(LayerNormShape, ConstView, ConstView, ConstView, View, Floats) const {
  missing("layernorm_forward");
}
void DeviceOps::layernorm_backward(LayerNormShape, ConstView, ConstView, ConstView, ConstFloats, View, Floats, Floats,
                                   bool) const {
  missing("layernorm_backward");
}
void DeviceOps::add_layernorm_forward(LayerNormShape, ConstView, ConstView, ConstView, ConstView, ConstView, View, View,
                                      Floats) const {
  missing("add_layernorm_forward");
}
void DeviceOps::add(ConstView, ConstView, View) const {
  missing("add");
}
void DeviceOps::add_to_rows(ConstView, std::int64_t, View) const {
  missing("add_to_rows");
}
void DeviceOps::axpy(float, ConstFloats, Floats) const {
  missing("axpy");
}
void DeviceOps::scale(float, Floats) const {
  missing("scale");
}
void DeviceOps::fill(View, float) const {
  missing("fill");
}
void DeviceOps::cast(ConstView, View) const {
  missing("cast");
}
double DeviceOps::sum(ConstFloats) const {
  missing("sum");
}
double DeviceOps::sum_of_squares(ConstFloats) const {
  missing("sum_of_squares");
}
bool DeviceOps::any_not_finite(ConstFloats) const {
  missing("any_not_finite");
}
void DeviceOps::swiglu_forward(SwiGluShape, ConstView, ConstView, View) const {
  missing("swiglu_forward");
}
void DeviceOps::swiglu_backward(SwiGluShape, ConstView, ConstView, ConstView, View, View) const {
  missing("swiglu_backward");
}
void DeviceOps::gelu_forward(ConstView, View) const {
  missing("gelu_forward");
}
void DeviceOps::gelu_backward(ConstView, ConstView, View) const {
  missing("gelu_backward");
}
void DeviceOps::rope_apply(RopeShape, const RopeTable&, Ids, std::int64_t, View, bool) const {
  missing("rope_apply");
}
void DeviceOps::dropout(const DropoutMask&, std::int64_t, std::int64_t, ConstView, View) const {
  missing("dropout");
}
void DeviceOps::embedding_forward(EmbeddingShape, Ids, ConstView, View) const {
  missing("embedding_forward");
}
void DeviceOps::embedding_backward(EmbeddingShape, Ids, ConstView, Floats) const {
  missing("embedding_backward");
}
void DeviceOps::cross_entropy_forward(CrossEntropyShape, ConstView, Ids, Floats) const {
  missing("cross_entropy_forward");
}
void DeviceOps::cross_entropy_forward_backward(CrossEntropyShape, ConstView, Ids, ConstFloats, Floats, View) const {
  missing("cross_entropy_forward_backward");
}
void DeviceOps::lm_head_loss(const LmHeadShape&, ConstView, ConstView, Ids, ConstFloats, Floats, View, View) const {
  missing("lm_head_loss");
}
void DeviceOps::softmax_rows(std::int64_t, std::int64_t, ConstView, float, Floats) const {
  missing("softmax_rows");
}
void DeviceOps::attention_forward(const AttentionShape&, ConstView, ConstView, ConstView, View, Floats, Ids) const {
  missing("attention_forward");
}
void DeviceOps::gemv(LinearShape, ConstView, ConstView, View) const {
  missing("gemv");
}
void DeviceOps::linear_forward_int8(LinearShape, ConstView, ConstView, ConstFloats, View) const {
  missing("linear_forward_int8");
}
void DeviceOps::attention_decode(const AttentionDecodeShape&, ConstView, std::span<const KvCacheView>, View) const {
  missing("attention_decode");
}
void DeviceOps::attention_merge(const AttentionMergeShape&, ConstView, ConstFloats, Floats, Floats) const {
  missing("attention_merge");
}
void DeviceOps::attention_backward(const AttentionShape&, ConstView, ConstView, ConstView, ConstView, ConstView,
                                   ConstFloats, View, View, View, Ids) const {
  missing("attention_backward");
}
void DeviceOps::linear_backward_bias(LinearShape, ConstView, View, bool) const {
  missing("linear_backward_bias");
}
void DeviceOps::quantize_blocks(std::int64_t, std::int64_t, const BlockQuantization&, ConstView, View,
                                QuantizationSums*) const {
  missing("quantize_blocks");
}
void DeviceOps::quantize_tensor(NumberFormat, float, ConstView, View, QuantizationSums*) const {
  missing("quantize_tensor");
}
float DeviceOps::largest_magnitude(ConstView) const {
  missing("largest_magnitude");
}
void DeviceOps::adamw_update(const AdamWStep&, Floats, View, View, ConstFloats, View, const AdamWRounding*) const {
  missing("adamw_update");
}

void DeviceOps::copy_rows(const RowBlockShape&, ConstView, View) const {
  missing("copy_rows");
}
void DeviceOps::add_rows(const RowBlockShape&, ConstView, Floats) const {
  missing("add_rows");
}
void DeviceOps::shard_tops(LogitShard, ConstView, Floats) const {
  missing("shard_tops");
}
void DeviceOps::shard_sums(LogitShard, ConstView, ConstFloats, Ids, Floats) const {
  missing("shard_sums");
}
void DeviceOps::losses_of_sums(ConstFloats, Ids, Floats) const {
  missing("losses_of_sums");
}
void DeviceOps::shard_gradient(LogitShard, View, ConstFloats, ConstFloats, Ids, ConstFloats) const {
  missing("shard_gradient");
}

}  // namespace longhaul
