// Room engine/ops
// All operations of a device in one interface, and how a GPU is handed to the engine.
// device_ops.h lists the operations; their contracts are in attention/, linear/, experts/, loss/ and pointwise/.
// gpu.h is what main opens; cpu_levels.h limits the instruction set for tests.
// It may include neither cpu/ nor cuda/: implementations depend on the contracts, not the reverse.
//
// The operations of a device (a GPU), under the contracts of the headers of this room: every view and span that they
// are given lies in the device's memory, except where a comment says so. They are put into the device's one stream, in
// the order of the calls, and may run later; what gives a number back waits for it. An operation with a context that
// has a device comes here (ComputeContext::device_ops).
//
// What an implementation does not have ends the process and says so: an operation is there or it is not, it never runs
// somewhere else unasked.
#pragma once

#include "engine/ops/attention/attention.h"
#include "engine/ops/attention/kv_table.h"
#include "engine/ops/attention/paged_attention.h"
#include "engine/ops/attention/rope.h"
#include "engine/ops/experts/moe_balance.h"
#include "engine/ops/experts/moe_dispatch.h"
#include "engine/ops/experts/moe_grouped_linear.h"
#include "engine/ops/experts/moe_router.h"
#include "engine/ops/linear/fp8.h"
#include "engine/ops/linear/gemm.h"
#include "engine/ops/linear/quantize_blocks.h"
#include "engine/ops/linear/weight_only.h"
#include "engine/ops/loss/cross_entropy.h"
#include "engine/ops/loss/cross_entropy_shard.h"
#include "engine/ops/loss/sample.h"
#include "engine/ops/pointwise/adamw.h"
#include "engine/ops/pointwise/dropout.h"
#include "engine/ops/pointwise/embedding.h"
#include "engine/ops/pointwise/layernorm.h"
#include "engine/ops/pointwise/rmsnorm.h"
#include "engine/ops/pointwise/row_blocks.h"
#include "engine/ops/pointwise/swiglu.h"

namespace longhaul {

class DeviceOps {
 public:
  using Floats = std::span<float>;
  using ConstFloats = std::span<const float>;
  using Ids = std::span<const std::int32_t>;
  virtual ~DeviceOps() = default;

  virtual void gemm(const GemmShape& shape, ConstView a, ConstView b, View c) const;
  virtual void linear_forward(LinearShape shape, ConstView x, ConstView weight, View y, ConstView bias) const;
  virtual void linear_backward_input(LinearShape shape, ConstView dy, ConstView weight, View dx, bool accumulate) const;
  virtual void linear_backward_weight(LinearShape shape, ConstView dy, ConstView x, View dweight, View dbias,
                                      bool accumulate) const;
  virtual void linear_backward_bias(LinearShape shape, ConstView dy, View dbias, bool accumulate) const;

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

  virtual void add(ConstView a, ConstView b, View out) const;
  virtual void add_to_rows(ConstView x, std::int64_t rows, View y) const;
  virtual void axpy(float alpha, ConstFloats x, Floats y) const;
  virtual void scale(float alpha, Floats x) const;
  virtual void fill(View x, float value) const;
  virtual void cast(ConstView x, View out) const;
  virtual double sum(ConstFloats x) const;
  virtual double sum_of_squares(ConstFloats x) const;
  virtual bool any_not_finite(ConstFloats x) const;
  virtual void sums_of_squares(std::span<const ConstFloats> parts, std::span<double> sums) const;
  virtual void digest_parts(ConstFloats x, std::span<std::uint64_t> out) const;

  virtual void swiglu_forward(SwiGluShape shape, ConstView gate, ConstView up, View out) const;
  virtual void swiglu_backward(SwiGluShape shape, ConstView dout, ConstView gate, ConstView up, View dgate,
                               View dup) const;
  virtual void gelu_forward(ConstView x, View y) const;
  virtual void gelu_backward(ConstView dy, ConstView x, View dx) const;
  // The table lies in the memory of the host; it is taken to the device once and kept as long as it is the same.
  virtual void rope_apply(RopeShape shape, const RopeTable& table, Ids positions, std::int64_t seq, View x,
                          bool inverse) const;
  virtual void dropout(const DropoutMask& mask, std::int64_t rows, std::int64_t columns, ConstView x, View out) const;

  virtual void embedding_forward(EmbeddingShape shape, Ids ids, ConstView table, View out) const;
  virtual void embedding_backward(EmbeddingShape shape, Ids ids, ConstView dout, Floats dtable) const;
  virtual void cross_entropy_forward(CrossEntropyShape shape, ConstView logits, Ids targets, Floats loss) const;
  virtual void cross_entropy_forward_backward(CrossEntropyShape shape, ConstView logits, Ids targets,
                                              ConstFloats weights, Floats loss, View dlogits) const;
  virtual void lm_head_loss(const LmHeadShape& shape, ConstView x, ConstView weight, Ids targets, ConstFloats weights,
                            Floats loss, View dx, View dweight) const;
  virtual void softmax_rows(std::int64_t rows, std::int64_t columns, ConstView logits, float temperature,
                            Floats probabilities) const;

  virtual void attention_forward(const AttentionShape& shape, ConstView q, ConstView k, ConstView v, View out,
                                 Floats lse, Ids first_key) const;
  virtual void attention_backward(const AttentionShape& shape, ConstView dout, ConstView q, ConstView k, ConstView v,
                                  ConstView out, ConstFloats lse, View dq, View dk, View dv, Ids first_key) const;

  // Token-by-token generation: gemv.h, attention.h.
  virtual void gemv(LinearShape shape, ConstView x, ConstView weight, View y) const;
  virtual void linear_forward_int8(LinearShape shape, ConstView x, ConstView q, ConstFloats scales, View y) const;
  virtual void attention_decode(const AttentionDecodeShape& shape, ConstView q, std::span<const KvCacheView> caches,
                                View out) const;
  virtual void attention_merge(const AttentionMergeShape& shape, ConstView part, ConstFloats part_lse, Floats out,
                               Floats lse) const;

  // More of generation: paged_attention.h, weight_only.h, sample.h.
  virtual void attention_decode_paged(const PagedShape& shape, ConstView q, ConstView keys, ConstView values, Ids table,
                                      Ids lengths, View out) const;
  virtual void paged_append(const PagedShape& shape, ConstView k, ConstView v, Ids table, Ids lengths, View keys,
                            View values) const;
  virtual void linear_forward_fp8(LinearShape shape, ConstView x, ConstView codes, ConstFloats scales, View y) const;
  virtual void linear_forward_int4(LinearShape shape, ConstView x, const Int4View& weight, View y) const;
  virtual void sample_tokens(SampleShape shape, ConstView logits, std::span<SampleRow> rows,
                             std::span<std::int32_t> seen, std::span<std::int32_t> tokens) const;
  virtual void token_logprobs(SampleShape shape, ConstView logits, Ids tokens, std::int64_t top_count,
                              std::span<double> chosen, std::span<std::int32_t> top_tokens,
                              std::span<double> top) const;

  virtual void adamw_update(const AdamWStep& step, Floats master, View m, View v, ConstFloats grad, View compute_copy,
                            const AdamWRounding* rounding) const;

  virtual void quantize_blocks(std::int64_t rows, std::int64_t columns, const BlockQuantization& how, ConstView x,
                               View y, QuantizationSums* sums) const;
  virtual void quantize_tensor(NumberFormat format, float scale, ConstView x, View y, QuantizationSums* sums) const;
  virtual float largest_magnitude(ConstView x) const;

  // kv_table.h; the tables lie in the device's memory, and so does what they name.
  virtual void kv_append(const KvAppendShape& shape, ConstView qkv, Ids sequences, Ids positions,
                         std::span<const KvPlace> places, View q) const;
  virtual void attention_decode_table(const AttentionDecodeShape& shape, ConstView q, std::span<const KvPlace> places,
                                      std::int64_t longest, View out) const;
  virtual void embedding_int8(LinearShape shape, Ids ids, ConstView q, ConstFloats scales, View out) const;
  // linear_gelu.h
  virtual void linear_gelu_forward(LinearShape shape, ConstView x, ConstView weight, ConstView bias, View before,
                                   View y) const;
  virtual void linear_gelu_backward(LinearShape shape, ConstView dy, ConstView weight, ConstView before, View dx) const;
  // fp8.h
  virtual Fp8Support fp8_support() const;  // none
  virtual std::string fp8_refusal(const Fp8Product& shape, const Fp8Operands& operands, ConstView c) const;
  virtual void fp8_cast(const Fp8Cast& how, ConstView x, View codes, View scales) const;
  virtual void fp8_keep_amax(ConstView x, View amax) const;
  virtual void fp8_tensor_scale(NumberFormat format, int margin, ConstView amax, View scale) const;
  virtual void fp8_product(const Fp8Product& shape, const Fp8Operands& operands, View c, ConstView bias) const;
  // Mixtures of experts: moe_router.h, moe_balance.h, moe_dispatch.h, moe_grouped_linear.h. Sizes were checked.
  using Offsets = std::span<const std::int64_t>;
  using Mask = std::span<const std::uint8_t>;
  virtual void moe_select(const RouterShape& shape, ConstFloats logits, ConstFloats bias,
                          std::span<std::int32_t> ids) const;
  virtual void moe_select_sinkhorn(const RouterShape& shape, ConstFloats logits, const SinkhornOptions& options,
                                   std::span<std::int32_t> ids, SinkhornReport* report) const;
  virtual void moe_count(Ids ids, Floats counts) const;
  virtual void moe_gate_forward(const RouterShape& shape, ConstFloats logits, Ids ids, Floats weights) const;
  virtual void moe_gate_backward(const RouterShape& shape, ConstFloats logits, Ids ids, ConstFloats dweights,
                                 Floats dlogits, bool accumulate) const;
  virtual void moe_router_statistics(const RouterShape& shape, ConstFloats logits, Ids ids, Floats statistics,
                                     Mask mask) const;
  virtual void moe_router_losses(const RouterLossTerms& terms, ConstFloats balance, ConstFloats z, Floats slopes) const;
  virtual void moe_statistics_backward(const RouterShape& shape, ConstFloats logits, ConstFloats slopes, float scale,
                                       Floats dlogits, Mask mask) const;
  virtual void moe_dispatch(Ids ids, ConstFloats weights, const CapacityRule* rule, const DispatchArrays& plan) const;
  virtual void gather_rows(std::int64_t width, ConstView x, Ids index, View out) const;
  // Without weights the plain sum: what moe_permute_backward is.
  virtual void moe_combine(const DispatchView& plan, std::int64_t hidden, ConstView rows, ConstFloats weights, View out,
                           bool accumulate) const;
  virtual void moe_combine_backward(const DispatchView& plan, std::int64_t hidden, ConstView dout, ConstView rows,
                                    ConstFloats weights, View drows, Floats dweights) const;
  virtual void grouped_linear_forward(GroupedLinearShape shape, Offsets offsets, ConstView x, ConstView weights,
                                      View y) const;
  virtual void grouped_linear_backward_input(GroupedLinearShape shape, Offsets offsets, ConstView dy, ConstView weights,
                                             View dx) const;
  virtual void grouped_linear_backward_weight(GroupedLinearShape shape, Offsets offsets, ConstView dy, ConstView x,
                                              View dweights, bool accumulate) const;
  // Of ranks that share a model: row_blocks.h, cross_entropy_shard.h. The gradient takes the place of the logits, in
  // their type.
  virtual void copy_rows(const RowBlockShape& shape, ConstView from, View to) const;
  virtual void add_rows(const RowBlockShape& shape, ConstView from, Floats to) const;
  virtual void shard_tops(LogitShard shard, ConstView logits, Floats tops) const;
  virtual void shard_sums(LogitShard shard, ConstView logits, ConstFloats tops, Ids targets, Floats sums) const;
  virtual void losses_of_sums(ConstFloats sums, Ids targets, Floats loss) const;
  virtual void shard_gradient(LogitShard shard, View logits, ConstFloats tops, ConstFloats sums, Ids targets,
                              ConstFloats weights) const;

 protected:
  // Ends the process: this device has no `operation`.
  [[noreturn]] void missing(const char* operation) const;
};

}  // namespace longhaul
