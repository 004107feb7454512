// The operations on a GPU: what each needs of scratch memory, and which kernel it is. Host code of no CUDA header, so
// that tests run the same with emulated kernels (tests/support/emulated_gpu/emulated_device.h).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "engine/core/device/device.h"
#include "engine/ops/cuda/libraries/device_attention.h"
#include "engine/ops/cuda/libraries/device_gemm.h"
#include "engine/ops/device_ops.h"

namespace longhaul::cuda {

class CudaOps final : public DeviceOps {
 public:
  // Borrowed: device, gemm. Kernels and copies of the device go into `stream`.
  CudaOps(Device& device, cudaStream_t stream, DeviceGemm& gemm) : device_(device), stream_(stream), gemm_(gemm) {}

  void gemm(const GemmShape& shape, ConstView a, ConstView b, View c) const override;
  void linear_forward(LinearShape shape, ConstView x, ConstView weight, View y, ConstView bias) const override;
  void linear_backward_input(LinearShape shape, ConstView dy, ConstView weight, View dx,
                             bool accumulate) const override;
  void linear_backward_weight(LinearShape shape, ConstView dy, ConstView x, View dweight, View dbias,
                              bool accumulate) const override;
  void linear_backward_bias(LinearShape shape, ConstView dy, View dbias, bool accumulate) const override;
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
  void add(ConstView a, ConstView b, View out) const override;
  void add_to_rows(ConstView x, std::int64_t rows, View y) const override;
  void axpy(float alpha, ConstFloats x, Floats y) const override;
  void scale(float alpha, Floats x) const override;
  void fill(View x, float value) const override;
  void cast(ConstView x, View out) const override;
  double sum(ConstFloats x) const override;
  double sum_of_squares(ConstFloats x) const override;
  bool any_not_finite(ConstFloats x) const override;
  void sums_of_squares(std::span<const ConstFloats> parts, std::span<double> sums) const override;
  void digest_parts(ConstFloats x, std::span<std::uint64_t> out) const override;
  void swiglu_forward(SwiGluShape shape, ConstView gate, ConstView up, View out) const override;
  void swiglu_backward(SwiGluShape shape, ConstView dout, ConstView gate, ConstView up, View dgate,
                       View dup) const override;
  void gelu_forward(ConstView x, View y) const override;
  void gelu_backward(ConstView dy, ConstView x, View dx) const override;
  void rope_apply(RopeShape shape, const RopeTable& table, Ids positions, std::int64_t seq, View x,
                  bool inverse) const override;
  void dropout(const DropoutMask& mask, std::int64_t rows, std::int64_t columns, ConstView x, View out) const override;
  void embedding_forward(EmbeddingShape shape, Ids ids, ConstView table, View out) const override;
  void embedding_backward(EmbeddingShape shape, Ids ids, ConstView dout, Floats dtable) const override;
  void cross_entropy_forward(CrossEntropyShape shape, ConstView logits, Ids targets, Floats loss) const override;
  void cross_entropy_forward_backward(CrossEntropyShape shape, ConstView logits, Ids targets, ConstFloats weights,
                                      Floats loss, View dlogits) const override;
  void lm_head_loss(const LmHeadShape& shape, ConstView x, ConstView weight, Ids targets, ConstFloats weights,
                    Floats loss, View dx, View dweight) const override;
  void softmax_rows(std::int64_t rows, std::int64_t columns, ConstView logits, float temperature,
                    Floats probabilities) const override;
  void adamw_update(const AdamWStep& step, Floats master, View m, View v, ConstFloats grad, View compute_copy,
                    const AdamWRounding* rounding) const override;
  // cuda_ops_attention.cc
  void attention_forward(const AttentionShape& shape, ConstView q, ConstView k, ConstView v, View out, Floats lse,
                         Ids first_key) const override;
  void attention_backward(const AttentionShape& shape, ConstView dout, ConstView q, ConstView k, ConstView v,
                          ConstView out, ConstFloats lse, View dq, View dk, View dv, Ids first_key) const override;
  // Where cuDNN is to be had from; asked for once, when an attention could take it. Without, there are own kernels.
  using OpenAttention = std::function<Result<std::unique_ptr<DeviceAttention>>()>;
  void set_attention_library(OpenAttention open) { open_attention_ = std::move(open); }
  // As Gpu::use_attention() says.
  Status use_attention(const AttentionSettings& settings, TellAttention tell);
  // cuda_ops_decode.cc
  void gemv(LinearShape shape, ConstView x, ConstView weight, View y) const override;
  void linear_forward_int8(LinearShape shape, ConstView x, ConstView q, ConstFloats scales, View y) const override;
  void attention_decode(const AttentionDecodeShape& shape, ConstView q, std::span<const KvCacheView> caches,
                        View out) const override;
  void attention_merge(const AttentionMergeShape& shape, ConstView part, ConstFloats part_lse, Floats out,
                       Floats lse) const override;
  // cuda_ops_kv_table.cc
  void kv_append(const KvAppendShape& shape, ConstView qkv, Ids sequences, Ids positions,
                 std::span<const KvPlace> places, View q) const override;
  void attention_decode_table(const AttentionDecodeShape& shape, ConstView q, std::span<const KvPlace> places,
                              std::int64_t longest, View out) const override;
  void embedding_int8(LinearShape shape, Ids ids, ConstView q, ConstFloats scales, View out) const override;
  // cuda_ops_paged.cc
  void attention_decode_paged(const PagedShape& shape, ConstView q, ConstView keys, ConstView values, Ids table,
                              Ids lengths, View out) const override;
  void paged_append(const PagedShape& shape, ConstView k, ConstView v, Ids table, Ids lengths, View keys,
                    View values) const override;
  // cuda_ops_weight_only.cc
  void linear_forward_fp8(LinearShape shape, ConstView x, ConstView codes, ConstFloats scales, View y) const override;
  void linear_forward_int4(LinearShape shape, ConstView x, const Int4View& weight, View y) const override;
  // cuda_ops_sample.cc
  void sample_tokens(SampleShape shape, ConstView logits, std::span<SampleRow> rows, std::span<std::int32_t> seen,
                     std::span<std::int32_t> tokens) const override;
  void token_logprobs(SampleShape shape, ConstView logits, Ids tokens, std::int64_t top_count, std::span<double> chosen,
                      std::span<std::int32_t> top_tokens, std::span<double> top) const override;
  // cuda_ops_low_precision.cc
  void quantize_blocks(std::int64_t rows, std::int64_t columns, const BlockQuantization& how, ConstView x, View y,
                       QuantizationSums* sums) const override;
  void quantize_tensor(NumberFormat format, float scale, ConstView x, View y, QuantizationSums* sums) const override;
  float largest_magnitude(ConstView x) const override;
  // cuda_ops_products.cc
  void linear_gelu_forward(LinearShape shape, ConstView x, ConstView weight, ConstView bias, View before,
                           View y) const override;
  void linear_gelu_backward(LinearShape shape, ConstView dy, ConstView weight, ConstView before,
                            View dx) const override;
  Fp8Support fp8_support() const override;
  std::string fp8_refusal(const Fp8Product& shape, const Fp8Operands& operands, ConstView c) const override;
  void fp8_cast(const Fp8Cast& how, ConstView x, View codes, View scales) const override;
  void fp8_keep_amax(ConstView x, View amax) const override;
  void fp8_tensor_scale(NumberFormat format, int margin, ConstView amax, View scale) const override;
  void fp8_product(const Fp8Product& shape, const Fp8Operands& operands, View c, ConstView bias) const override;
  // cuda_ops_experts.cc
  void moe_select(const RouterShape& shape, ConstFloats logits, ConstFloats bias,
                  std::span<std::int32_t> ids) const override;
  void moe_select_sinkhorn(const RouterShape& shape, ConstFloats logits, const SinkhornOptions& options,
                           std::span<std::int32_t> ids, SinkhornReport* report) const override;
  void moe_count(Ids ids, Floats counts) const override;
  void moe_gate_forward(const RouterShape& shape, ConstFloats logits, Ids ids, Floats weights) const override;
  void moe_gate_backward(const RouterShape& shape, ConstFloats logits, Ids ids, ConstFloats dweights, Floats dlogits,
                         bool accumulate) const override;
  void moe_router_statistics(const RouterShape& shape, ConstFloats logits, Ids ids, Floats statistics,
                             Mask mask) const override;
  void moe_router_losses(const RouterLossTerms& terms, ConstFloats balance, ConstFloats z,
                         Floats slopes) const override;
  void moe_statistics_backward(const RouterShape& shape, ConstFloats logits, ConstFloats slopes, float scale,
                               Floats dlogits, Mask mask) const override;
  void moe_dispatch(Ids ids, ConstFloats weights, const CapacityRule* rule, const DispatchArrays& plan) const override;
  void gather_rows(std::int64_t width, ConstView x, Ids index, View out) const override;
  void moe_combine(const DispatchView& plan, std::int64_t hidden, ConstView rows, ConstFloats weights, View out,
                   bool accumulate) const override;
  void moe_combine_backward(const DispatchView& plan, std::int64_t hidden, ConstView dout, ConstView rows,
                            ConstFloats weights, View drows, Floats dweights) const override;
  void grouped_linear_forward(GroupedLinearShape shape, Offsets offsets, ConstView x, ConstView weights,
                              View y) const override;
  void grouped_linear_backward_input(GroupedLinearShape shape, Offsets offsets, ConstView dy, ConstView weights,
                                     View dx) const override;
  void grouped_linear_backward_weight(GroupedLinearShape shape, Offsets offsets, ConstView dy, ConstView x,
                                      View dweights, bool accumulate) const override;
  // cuda_ops_ranks.cc
  void copy_rows(const RowBlockShape& shape, ConstView from, View to) const override;
  void add_rows(const RowBlockShape& shape, ConstView from, Floats to) const override;
  void shard_tops(LogitShard shard, ConstView logits, Floats tops) const override;
  void shard_sums(LogitShard shard, ConstView logits, ConstFloats tops, Ids targets, Floats sums) const override;
  void losses_of_sums(ConstFloats sums, Ids targets, Floats loss) const override;
  void shard_gradient(LogitShard shard, View logits, ConstFloats tops, ConstFloats sums, Ids targets,
                      ConstFloats weights) const override;

 private:
  void take_sums(std::int64_t count, double* parts, QuantizationSums& sums) const;
  // Memory of the device for one operation, until the next one that asks for it.
  std::byte* scratch(int slot, std::int64_t bytes) const;
  double flat_sum(int kind, ConstFloats x) const;
  void open_attention_library() const;
  AttentionWay attention_way(const AttentionCase& asked) const;

  Device& device_;
  cudaStream_t stream_;
  DeviceGemm& gemm_;
  mutable DeviceMemory scratch_[3];
  struct DeviceRope {
    std::int64_t positions = 0, half_dim = 0;
    float last = 0;  // tables of one size differ there
    DeviceMemory memory;
  };
  mutable std::map<const RopeTable*, DeviceRope> ropes_;
  OpenAttention open_attention_;
  AttentionSettings attention_settings_;
  TellAttention report_attention_;
  mutable std::unique_ptr<DeviceAttention> attention_library_;
  mutable CudnnFacts attention_facts_;
  mutable std::map<AttentionCase, AttentionWay> attention_ways_;
};

}  // namespace longhaul::cuda
