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
void DeviceOps::sums_of_squares(std::span<const ConstFloats>, std::span<double>) const {
  missing("sums_of_squares");
}
void DeviceOps::digest_parts(ConstFloats, std::span<std::uint64_t>) const {
  missing("digest_parts");
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
void DeviceOps::kv_append(const KvAppendShape&, ConstView, Ids, Ids, std::span<const KvPlace>, View) const {
  missing("kv_append");
}
void DeviceOps::attention_decode_table(const AttentionDecodeShape&, ConstView, std::span<const KvPlace>, std::int64_t,
                                       View) const {
  missing("attention_decode_table");
}
void DeviceOps::embedding_int8(LinearShape, Ids, ConstView, ConstFloats, View) const {
  missing("embedding_int8");
}
void DeviceOps::attention_backward(const AttentionShape&, ConstView, ConstView, ConstView, ConstView, ConstView,
                                   ConstFloats, View, View, View, Ids) const {
  missing("attention_backward");
}
void DeviceOps::attention_decode_paged(const PagedShape&, ConstView, ConstView, ConstView, Ids, Ids, View) const {
  missing("attention_decode_paged");
}
void DeviceOps::paged_append(const PagedShape&, ConstView, ConstView, Ids, Ids, View, View) const {
  missing("paged_append");
}
void DeviceOps::linear_forward_fp8(LinearShape, ConstView, ConstView, ConstFloats, View) const {
  missing("linear_forward_fp8");
}
void DeviceOps::linear_forward_int4(LinearShape, ConstView, const Int4View&, View) const {
  missing("linear_forward_int4");
}
void DeviceOps::sample_tokens(SampleShape, ConstView, std::span<SampleRow>, std::span<std::int32_t>,
                              std::span<std::int32_t>) const {
  missing("sample_tokens");
}
void DeviceOps::token_logprobs(SampleShape, ConstView, Ids, std::int64_t, std::span<double>, std::span<std::int32_t>,
                               std::span<double>) const {
  missing("token_logprobs");
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
void DeviceOps::moe_select(const RouterShape&, ConstFloats, ConstFloats, std::span<std::int32_t>) const {
  missing("moe_select");
}
void DeviceOps::moe_select_sinkhorn(const RouterShape&, ConstFloats, const SinkhornOptions&, std::span<std::int32_t>,
                                    SinkhornReport*) const {
  missing("moe_select_sinkhorn");
}
void DeviceOps::moe_count(Ids, Floats) const {
  missing("moe_count");
}
void DeviceOps::moe_gate_forward(const RouterShape&, ConstFloats, Ids, Floats) const {
  missing("moe_gate_forward");
}
void DeviceOps::moe_gate_backward(const RouterShape&, ConstFloats, Ids, ConstFloats, Floats, bool) const {
  missing("moe_gate_backward");
}
void DeviceOps::moe_router_statistics(const RouterShape&, ConstFloats, Ids, Floats, Mask) const {
  missing("moe_router_statistics");
}
void DeviceOps::moe_router_losses(const RouterLossTerms&, ConstFloats, ConstFloats, Floats) const {
  missing("moe_router_losses");
}
void DeviceOps::moe_statistics_backward(const RouterShape&, ConstFloats, ConstFloats, float, Floats, Mask) const {
  missing("moe_statistics_backward");
}
void DeviceOps::moe_dispatch(Ids, ConstFloats, const CapacityRule*, const DispatchArrays&) const {
  missing("moe_dispatch");
}
void DeviceOps::gather_rows(std::int64_t, ConstView, Ids, View) const {
  missing("gather_rows");
}
void DeviceOps::moe_combine(const DispatchView&, std::int64_t, ConstView, ConstFloats, View, bool) const {
  missing("moe_combine");
}
void DeviceOps::moe_combine_backward(const DispatchView&, std::int64_t, ConstView, ConstView, ConstFloats, View,
                                     Floats) const {
  missing("moe_combine_backward");
}
void DeviceOps::grouped_linear_forward(GroupedLinearShape, Offsets, ConstView, ConstView, View) const {
  missing("grouped_linear_forward");
}
void DeviceOps::grouped_linear_backward_input(GroupedLinearShape, Offsets, ConstView, ConstView, View) const {
  missing("grouped_linear_backward_input");
}
void DeviceOps::grouped_linear_backward_weight(GroupedLinearShape, Offsets, ConstView, ConstView, View, bool) const {
  missing("grouped_linear_backward_weight");
}

void DeviceOps::linear_gelu_forward(LinearShape, ConstView, ConstView, ConstView, View, View) const {
  missing("linear_gelu_forward");
}
void DeviceOps::linear_gelu_backward(LinearShape, ConstView, ConstView, ConstView, View) const {
  missing("linear_gelu_backward");
}
Fp8Support DeviceOps::fp8_support() const {
  return {.why_not = "this device has no products of eight bits"};
}
std::string DeviceOps::fp8_refusal(const Fp8Product&, const Fp8Operands&, ConstView) const {
  return fp8_support().why_not;
}
void DeviceOps::fp8_cast(const Fp8Cast&, ConstView, View, View) const {
  missing("fp8_cast");
}
void DeviceOps::fp8_keep_amax(ConstView, View) const {
  missing("fp8_keep_amax");
}
void DeviceOps::fp8_tensor_scale(NumberFormat, int, ConstView, View) const {
  missing("fp8_tensor_scale");
}
void DeviceOps::fp8_product(const Fp8Product&, const Fp8Operands&, View, ConstView) const {
  missing("fp8_product");
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
