// The operations of a device on memory of the host: what tests of single operations call, whose tensors are the host's.
// Each call takes all that its views and spans cover to the device, runs there, and brings back what may have been
// written. Views that overlap (slices of one matrix, an operation in place) overlap on the device as well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "engine/core/device/device.h"
#include "engine/ops/device_ops.h"

namespace longhaul::testing {

// The ranges of one call.
class StagedRanges {
 public:
  explicit StagedRanges(Device& device) : device_(device) {}
  void add(ConstView view) { add(view.data(), view.bytes(), false); }
  void add(View view) { add(view.data(), view.bytes(), true); }
  template <class T>
  void add(std::span<T> span) {
    add(span.data(), static_cast<std::int64_t>(span.size_bytes()), !std::is_const_v<T>);
  }
  template <class T>
  void add(const T&) {}  // no memory of a tensor

  void add(const DispatchView& plan) { add(plan.offsets), add(plan.row_slot), add(plan.row_token), add(plan.slot_row); }
  void add(const DispatchArrays& plan) {
    add(plan.offsets), add(plan.row_slot), add(plan.row_token), add(plan.slot_row);
  }

  void take_in();     // after all of them
  void bring_back();  // waits

  ConstView at(ConstView view) const { return {there(view.data(), view.bytes()), view.dtype(), view.shape()}; }
  View at(View view) const { return {there(view.data(), view.bytes()), view.dtype(), view.shape()}; }
  template <class T>
  std::span<T> at(std::span<T> span) const {
    return {static_cast<T*>(there(span.data(), static_cast<std::int64_t>(span.size_bytes()))), span.size()};
  }
  DispatchView at(DispatchView plan) const {
    plan.offsets = at(plan.offsets), plan.row_slot = at(plan.row_slot);
    plan.row_token = at(plan.row_token), plan.slot_row = at(plan.slot_row);
    return plan;
  }
  DispatchArrays at(DispatchArrays plan) const {
    plan.offsets = at(plan.offsets), plan.row_slot = at(plan.row_slot);
    plan.row_token = at(plan.row_token), plan.slot_row = at(plan.slot_row);
    return plan;
  }
  template <class T>
  const T& at(const T& other) const {
    return other;
  }

 private:
  struct Range {
    std::byte* begin;
    std::int64_t bytes;
    bool written;
    DeviceMemory memory = {};
  };
  void add(const void* data, std::int64_t bytes, bool written);
  void* there(const void* data, std::int64_t bytes) const;

  Device& device_;
  std::vector<Range> ranges_;
};

class StagedOps final : public DeviceOps {
 public:
  // Borrowed: device, ops.
  StagedOps(Device& device, const DeviceOps& ops) : device_(device), ops_(ops) {}

  void gemm(const GemmShape& shape, ConstView a, ConstView b, View c) const override {
    run(&DeviceOps::gemm, shape, a, b, c);
  }
  void linear_forward(LinearShape shape, ConstView x, ConstView weight, View y, ConstView bias) const override {
    run(&DeviceOps::linear_forward, shape, x, weight, y, bias);
  }
  void linear_backward_input(LinearShape shape, ConstView dy, ConstView weight, View dx,
                             bool accumulate) const override {
    run(&DeviceOps::linear_backward_input, shape, dy, weight, dx, accumulate);
  }
  void linear_backward_weight(LinearShape shape, ConstView dy, ConstView x, View dweight, View dbias,
                              bool accumulate) const override {
    run(&DeviceOps::linear_backward_weight, shape, dy, x, dweight, dbias, accumulate);
  }
  void linear_backward_bias(LinearShape shape, ConstView dy, View dbias, bool accumulate) const override {
    run(&DeviceOps::linear_backward_bias, shape, dy, dbias, accumulate);
  }
  void rmsnorm_forward(RmsNormShape shape, ConstView x, ConstView weight, View y, Floats inv_rms) const override {
    run(&DeviceOps::rmsnorm_forward, shape, x, weight, y, inv_rms);
  }
  void rmsnorm_backward(RmsNormShape shape, ConstView dy, ConstView x, ConstView weight, ConstFloats inv_rms, View dx,
                        Floats dweight, bool accumulate_dx) const override {
    run(&DeviceOps::rmsnorm_backward, shape, dy, x, weight, inv_rms, dx, dweight, accumulate_dx);
  }
  void add_rmsnorm_forward(RmsNormShape shape, ConstView a, ConstView b, ConstView weight, View sum, View y,
                           Floats inv_rms) const override {
    run(&DeviceOps::add_rmsnorm_forward, shape, a, b, weight, sum, y, inv_rms);
  }
  void layernorm_forward(LayerNormShape shape, ConstView x, ConstView weight, ConstView bias, View y,
                         Floats statistics) const override {
    run(&DeviceOps::layernorm_forward, shape, x, weight, bias, y, statistics);
  }
  void layernorm_backward(LayerNormShape shape, ConstView dy, ConstView x, ConstView weight, ConstFloats statistics,
                          View dx, Floats dweight, Floats dbias, bool accumulate_dx) const override {
    run(&DeviceOps::layernorm_backward, shape, dy, x, weight, statistics, dx, dweight, dbias, accumulate_dx);
  }
  void add_layernorm_forward(LayerNormShape shape, ConstView a, ConstView b, ConstView column_bias, ConstView weight,
                             ConstView bias, View sum, View y, Floats statistics) const override {
    run(&DeviceOps::add_layernorm_forward, shape, a, b, column_bias, weight, bias, sum, y, statistics);
  }
  void add(ConstView a, ConstView b, View out) const override { run(&DeviceOps::add, a, b, out); }
  void add_to_rows(ConstView x, std::int64_t rows, View y) const override { run(&DeviceOps::add_to_rows, x, rows, y); }
  void axpy(float alpha, ConstFloats x, Floats y) const override { run(&DeviceOps::axpy, alpha, x, y); }
  void scale(float alpha, Floats x) const override { run(&DeviceOps::scale, alpha, x); }
  void fill(View x, float value) const override { run(&DeviceOps::fill, x, value); }
  void cast(ConstView x, View out) const override { run(&DeviceOps::cast, x, out); }
  double sum(ConstFloats x) const override { return run(&DeviceOps::sum, x); }
  double sum_of_squares(ConstFloats x) const override { return run(&DeviceOps::sum_of_squares, x); }
  bool any_not_finite(ConstFloats x) const override { return run(&DeviceOps::any_not_finite, x); }
  void sums_of_squares(std::span<const ConstFloats> parts, std::span<double> sums) const override {
    StagedRanges ranges(device_);  // the sums are the host's
    for (const ConstFloats& part : parts) ranges.add(part);
    ranges.take_in();
    std::vector<ConstFloats> there;
    for (const ConstFloats& part : parts) there.push_back(ranges.at(part));
    ops_.sums_of_squares(there, sums);
  }
  void digest_parts(ConstFloats x, std::span<std::uint64_t> out) const override {
    run(&DeviceOps::digest_parts, x, out);
  }
  void swiglu_forward(SwiGluShape shape, ConstView gate, ConstView up, View out) const override {
    run(&DeviceOps::swiglu_forward, shape, gate, up, out);
  }
  void swiglu_backward(SwiGluShape shape, ConstView dout, ConstView gate, ConstView up, View dgate,
                       View dup) const override {
    run(&DeviceOps::swiglu_backward, shape, dout, gate, up, dgate, dup);
  }
  void gelu_forward(ConstView x, View y) const override { run(&DeviceOps::gelu_forward, x, y); }
  void gelu_backward(ConstView dy, ConstView x, View dx) const override { run(&DeviceOps::gelu_backward, dy, x, dx); }
  void rope_apply(RopeShape shape, const RopeTable& table, Ids positions, std::int64_t seq, View x,
                  bool inverse) const override {
    run(&DeviceOps::rope_apply, shape, table, positions, seq, x, inverse);
  }
  void dropout(const DropoutMask& mask, std::int64_t rows, std::int64_t columns, ConstView x, View out) const override {
    run(&DeviceOps::dropout, mask, rows, columns, x, out);
  }
  void dropout_change(const DropoutMask& mask, std::int64_t rows, std::int64_t columns, ConstView x,
                      View out) const override {
    run(&DeviceOps::dropout_change, mask, rows, columns, x, out);
  }
  void embedding_forward(EmbeddingShape shape, Ids ids, ConstView table, View out) const override {
    run(&DeviceOps::embedding_forward, shape, ids, table, out);
  }
  void embedding_backward(EmbeddingShape shape, Ids ids, ConstView dout, Floats dtable) const override {
    run(&DeviceOps::embedding_backward, shape, ids, dout, dtable);
  }
  void cross_entropy_forward(CrossEntropyShape shape, ConstView logits, Ids targets, Floats loss) const override {
    run(&DeviceOps::cross_entropy_forward, shape, logits, targets, loss);
  }
  void cross_entropy_forward_backward(CrossEntropyShape shape, ConstView logits, Ids targets, ConstFloats weights,
                                      Floats loss, View dlogits) const override {
    run(&DeviceOps::cross_entropy_forward_backward, shape, logits, targets, weights, loss, dlogits);
  }
  void lm_head_loss(const LmHeadShape& shape, ConstView x, ConstView weight, Ids targets, ConstFloats weights,
                    Floats loss, View dx, View dweight) const override {
    run(&DeviceOps::lm_head_loss, shape, x, weight, targets, weights, loss, dx, dweight);
  }
  void softmax_rows(std::int64_t rows, std::int64_t columns, ConstView logits, float temperature,
                    Floats probabilities) const override {
    run(&DeviceOps::softmax_rows, rows, columns, logits, temperature, probabilities);
  }
  void attention_forward(const AttentionShape& shape, ConstView q, ConstView k, ConstView v, View out, Floats lse,
                         Ids first_key) const override {
    run(&DeviceOps::attention_forward, shape, q, k, v, out, lse, first_key);
  }
  void attention_backward(const AttentionShape& shape, ConstView dout, ConstView q, ConstView k, ConstView v,
                          ConstView out, ConstFloats lse, View dq, View dk, View dv, Ids first_key) const override {
    run(&DeviceOps::attention_backward, shape, dout, q, k, v, out, lse, dq, dk, dv, first_key);
  }
  void gemv(LinearShape shape, ConstView x, ConstView weight, View y) const override {
    run(&DeviceOps::gemv, shape, x, weight, y);
  }
  void linear_forward_int8(LinearShape shape, ConstView x, ConstView q, ConstFloats scales, View y) const override {
    run(&DeviceOps::linear_forward_int8, shape, x, q, scales, y);
  }
  void attention_decode(const AttentionDecodeShape& shape, ConstView q, std::span<const KvCacheView> caches,
                        View out) const override {
    StagedRanges ranges(device_);
    for (const KvCacheView& cache : caches) ranges.add(cache.k), ranges.add(cache.v);
    ranges.add(q), ranges.add(out);
    ranges.take_in();
    std::vector<KvCacheView> there;
    for (const KvCacheView& cache : caches) there.push_back({ranges.at(cache.k), ranges.at(cache.v), cache.length});
    ops_.attention_decode(shape, ranges.at(q), there, ranges.at(out));
    ranges.bring_back();
  }
  // Here the tables lie in the host's memory, and name places of the host.
  void kv_append(const KvAppendShape& shape, ConstView qkv, Ids sequences, Ids positions,
                 std::span<const KvPlace> places, View q) const override {
    const std::int64_t row = shape.kv_size * dtype_bytes(qkv.dtype());
    with_places(
        places, row, true,
        [&](StagedRanges& ranges, std::span<const KvPlace> there) {
          ops_.kv_append(shape, ranges.at(qkv), ranges.at(sequences), ranges.at(positions), there, ranges.at(q));
        },
        qkv, sequences, positions, q);
  }
  void attention_decode_table(const AttentionDecodeShape& shape, ConstView q, std::span<const KvPlace> places,
                              std::int64_t longest, View out) const override {
    const std::int64_t row = shape.kv_heads * shape.head_dim * dtype_bytes(q.dtype());
    with_places(
        places, row, false,
        [&](StagedRanges& ranges, std::span<const KvPlace> there) {
          ops_.attention_decode_table(shape, ranges.at(q), there, longest, ranges.at(out));
        },
        q, out);
  }
  void embedding_int8(LinearShape shape, Ids ids, ConstView q, ConstFloats scales, View out) const override {
    run(&DeviceOps::embedding_int8, shape, ids, q, scales, out);
  }
  void attention_merge(const AttentionMergeShape& shape, ConstView part, ConstFloats part_lse, Floats out,
                       Floats lse) const override {
    run(&DeviceOps::attention_merge, shape, part, part_lse, out, lse);
  }
  void attention_decode_paged(const PagedShape& shape, ConstView q, ConstView keys, ConstView values, Ids table,
                              Ids lengths, View out) const override {
    run(&DeviceOps::attention_decode_paged, shape, q, keys, values, table, lengths, out);
  }
  void paged_append(const PagedShape& shape, ConstView k, ConstView v, Ids table, Ids lengths, View keys,
                    View values) const override {
    run(&DeviceOps::paged_append, shape, k, v, table, lengths, keys, values);
  }
  void linear_forward_fp8(LinearShape shape, ConstView x, ConstView codes, ConstFloats scales, View y) const override {
    run(&DeviceOps::linear_forward_fp8, shape, x, codes, scales, y);
  }
  void linear_forward_int4(LinearShape shape, ConstView x, const Int4View& weight, View y) const override {
    StagedRanges ranges(device_);
    ranges.add(x), ranges.add(weight.packed), ranges.add(weight.scales), ranges.add(weight.zeros), ranges.add(y);
    ranges.take_in();
    const Int4View there{ranges.at(weight.packed), ranges.at(weight.scales), ranges.at(weight.zeros), weight.group};
    ops_.linear_forward_int4(shape, ranges.at(x), there, ranges.at(y));
    ranges.bring_back();
  }
  void decode_blocks(const CodedBlocks& from, View out) const override {
    StagedRanges ranges(device_);
    ranges.add(from.codes), ranges.add(from.scales), ranges.add(out);
    ranges.take_in();
    CodedBlocks there = from;  // the values stay in the host's memory
    there.codes = ranges.at(from.codes), there.scales = ranges.at(from.scales);
    ops_.decode_blocks(there, ranges.at(out));
    ranges.bring_back();
  }
  void sample_tokens(SampleShape shape, ConstView logits, std::span<SampleRow> rows, std::span<std::int32_t> seen,
                     std::span<std::int32_t> tokens) const override {
    run(&DeviceOps::sample_tokens, shape, logits, rows, seen, tokens);
  }
  void token_logprobs(SampleShape shape, ConstView logits, Ids tokens, std::int64_t top_count, std::span<double> chosen,
                      std::span<std::int32_t> top_tokens, std::span<double> top) const override {
    run(&DeviceOps::token_logprobs, shape, logits, tokens, top_count, chosen, top_tokens, top);
  }
  void adamw_update(const AdamWStep& step, Floats master, View m, View v, ConstFloats grad, View compute_copy,
                    const AdamWRounding* rounding) const override {
    run(&DeviceOps::adamw_update, step, master, m, v, grad, compute_copy, rounding);
  }
  void quantize_blocks(std::int64_t rows, std::int64_t columns, const BlockQuantization& how, ConstView x, View y,
                       QuantizationSums* sums) const override {
    run(&DeviceOps::quantize_blocks, rows, columns, how, x, y, sums);
  }
  void quantize_tensor(NumberFormat format, float scale, ConstView x, View y, QuantizationSums* sums) const override {
    run(&DeviceOps::quantize_tensor, format, scale, x, y, sums);
  }
  float largest_magnitude(ConstView x) const override { return run(&DeviceOps::largest_magnitude, x); }
  void linear_gelu_forward(LinearShape shape, ConstView x, ConstView weight, ConstView bias, View before,
                           View y) const override {
    run(&DeviceOps::linear_gelu_forward, shape, x, weight, bias, before, y);
  }
  void linear_gelu_backward(LinearShape shape, ConstView dy, ConstView weight, ConstView before,
                            View dx) const override {
    run(&DeviceOps::linear_gelu_backward, shape, dy, weight, before, dx);
  }
  void linear_relu_forward(LinearShape shape, ConstView x, ConstView weight, ConstView bias, View y) const override {
    run(&DeviceOps::linear_relu_forward, shape, x, weight, bias, y);
  }
  void linear_relu_backward(LinearShape shape, ConstView dy, ConstView weight, ConstView y, View dx) const override {
    run(&DeviceOps::linear_relu_backward, shape, dy, weight, y, dx);
  }
  Fp8Support fp8_support() const override { return ops_.fp8_support(); }
  std::string fp8_refusal(const Fp8Product& shape, const Fp8Operands& operands, ConstView c) const override {
    return ops_.fp8_refusal(shape, operands, c);
  }
  void fp8_cast(const Fp8Cast& how, ConstView x, View codes, View scales) const override {
    run(&DeviceOps::fp8_cast, how, x, codes, scales);
  }
  void fp8_keep_amax(ConstView x, View amax) const override { run(&DeviceOps::fp8_keep_amax, x, amax); }
  void fp8_tensor_scale(NumberFormat format, int margin, ConstView amax, View scale) const override {
    run(&DeviceOps::fp8_tensor_scale, format, margin, amax, scale);
  }
  void fp8_product(const Fp8Product& shape, const Fp8Operands& o, View c, ConstView bias) const override {
    StagedRanges ranges(device_);
    for (const ConstView& view : {o.a, o.scales_a, o.b, o.scales_b, bias}) ranges.add(view);
    ranges.add(c);
    ranges.take_in();
    ops_.fp8_product(shape, {ranges.at(o.a), ranges.at(o.scales_a), ranges.at(o.b), ranges.at(o.scales_b)},
                     ranges.at(c), ranges.at(bias));
    ranges.bring_back();
  }
  // Mixtures of experts.
  void moe_select(const RouterShape& shape, ConstFloats logits, ConstFloats bias,
                  std::span<std::int32_t> ids) const override {
    run(&DeviceOps::moe_select, shape, logits, bias, ids);
  }
  void moe_select_sinkhorn(const RouterShape& shape, ConstFloats logits, const SinkhornOptions& options,
                           std::span<std::int32_t> ids, SinkhornReport* report) const override {
    run(&DeviceOps::moe_select_sinkhorn, shape, logits, options, ids, report);
  }
  void moe_count(Ids ids, Floats counts) const override { run(&DeviceOps::moe_count, ids, counts); }
  void moe_gate_forward(const RouterShape& shape, ConstFloats logits, Ids ids, Floats weights) const override {
    run(&DeviceOps::moe_gate_forward, shape, logits, ids, weights);
  }
  void moe_gate_backward(const RouterShape& shape, ConstFloats logits, Ids ids, ConstFloats dweights, Floats dlogits,
                         bool accumulate) const override {
    run(&DeviceOps::moe_gate_backward, shape, logits, ids, dweights, dlogits, accumulate);
  }
  void moe_router_statistics(const RouterShape& shape, ConstFloats logits, Ids ids, Floats statistics,
                             Mask mask) const override {
    run(&DeviceOps::moe_router_statistics, shape, logits, ids, statistics, mask);
  }
  void moe_router_losses(const RouterLossTerms& terms, ConstFloats balance, ConstFloats z,
                         Floats slopes) const override {
    run(&DeviceOps::moe_router_losses, terms, balance, z, slopes);
  }
  void moe_statistics_backward(const RouterShape& shape, ConstFloats logits, ConstFloats slopes, float scale,
                               Floats dlogits, Mask mask) const override {
    run(&DeviceOps::moe_statistics_backward, shape, logits, slopes, scale, dlogits, mask);
  }
  void moe_dispatch(Ids ids, ConstFloats weights, const CapacityRule* rule, const DispatchArrays& plan) const override {
    run(&DeviceOps::moe_dispatch, ids, weights, rule, plan);
  }
  void gather_rows(std::int64_t width, ConstView x, Ids index, View out) const override {
    run(&DeviceOps::gather_rows, width, x, index, out);
  }
  void moe_combine(const DispatchView& plan, std::int64_t hidden, ConstView rows, ConstFloats weights, View out,
                   bool accumulate) const override {
    run(&DeviceOps::moe_combine, plan, hidden, rows, weights, out, accumulate);
  }
  void moe_combine_backward(const DispatchView& plan, std::int64_t hidden, ConstView dout, ConstView rows,
                            ConstFloats weights, View drows, Floats dweights) const override {
    run(&DeviceOps::moe_combine_backward, plan, hidden, dout, rows, weights, drows, dweights);
  }
  void grouped_linear_forward(GroupedLinearShape shape, Offsets offsets, ConstView x, ConstView weights,
                              View y) const override {
    run(&DeviceOps::grouped_linear_forward, shape, offsets, x, weights, y);
  }
  void grouped_linear_backward_input(GroupedLinearShape shape, Offsets offsets, ConstView dy, ConstView weights,
                                     View dx) const override {
    run(&DeviceOps::grouped_linear_backward_input, shape, offsets, dy, weights, dx);
  }
  void grouped_linear_backward_weight(GroupedLinearShape shape, Offsets offsets, ConstView dy, ConstView x,
                                      View dweights, bool accumulate) const override {
    run(&DeviceOps::grouped_linear_backward_weight, shape, offsets, dy, x, dweights, accumulate);
  }
  void copy_rows(const RowBlockShape& shape, ConstView from, View to) const override {
    run(&DeviceOps::copy_rows, shape, from, to);
  }
  void add_rows(const RowBlockShape& shape, ConstView from, Floats to) const override {
    run(&DeviceOps::add_rows, shape, from, to);
  }
  void dots_of_lines(MatrixLine line, ConstView a, ConstView b, bool accumulate, Floats out) const override {
    run(&DeviceOps::dots_of_lines, line, a, b, accumulate, out);
  }
  void scale_lines(MatrixLine line, ConstFloats factors, View matrix) const override {
    run(&DeviceOps::scale_lines, line, factors, matrix);
  }
  void divide_by_roots(ConstFloats x, ConstFloats squares, bool accumulate, Floats out) const override {
    run(&DeviceOps::divide_by_roots, x, squares, accumulate, out);
  }
  void shard_tops(LogitShard shard, ConstView logits, Floats tops) const override {
    run(&DeviceOps::shard_tops, shard, logits, tops);
  }
  void shard_sums(LogitShard shard, ConstView logits, ConstFloats tops, Ids targets, Floats sums) const override {
    run(&DeviceOps::shard_sums, shard, logits, tops, targets, sums);
  }
  void losses_of_sums(ConstFloats sums, Ids targets, Floats loss) const override {
    run(&DeviceOps::losses_of_sums, sums, targets, loss);
  }
  void shard_gradient(LogitShard shard, View logits, ConstFloats tops, ConstFloats sums, Ids targets,
                      ConstFloats weights) const override {
    run(&DeviceOps::shard_gradient, shard, logits, tops, sums, targets, weights);
  }

 private:
  template <class Ask, class... Given>
  void with_places(std::span<const KvPlace> places, std::int64_t row_bytes, bool written, const Ask& ask,
                   const Given&... given) const {
    StagedRanges ranges(device_);
    for (const KvPlace& place : places)
      for (std::byte* memory : {place.keys, place.values}) {
        const std::span<std::byte> bytes(memory, static_cast<std::size_t>(place.length * row_bytes));
        written ? ranges.add(bytes) : ranges.add(std::span<const std::byte>(bytes));
      }
    (ranges.add(given), ...);
    ranges.take_in();
    std::vector<KvPlace> moved;
    for (const KvPlace& place : places) {
      const auto size = static_cast<std::size_t>(place.length * row_bytes);
      moved.push_back({ranges.at(std::span(place.keys, size)).data(), ranges.at(std::span(place.values, size)).data(),
                       place.length});
    }
    const auto bytes = static_cast<std::int64_t>(moved.size() * sizeof(KvPlace));
    const DeviceMemory table(device_, bytes);
    device_.copy_in(moved.data(), table.data(), bytes);
    ask(ranges, std::span(reinterpret_cast<const KvPlace*>(table.data()), moved.size()));
    ranges.bring_back();
  }
  template <class Group, class Result, class... Takes, class... Given>
  Result run(Result (Group::*operation)(Takes...) const, const Given&... given) const {
    const Group& ops = ops_;
    StagedRanges ranges(device_);
    (ranges.add(given), ...);
    ranges.take_in();
    if constexpr (std::is_void_v<Result>) {
      (ops.*operation)(ranges.at(given)...);
      ranges.bring_back();
    } else {
      const Result result = (ops.*operation)(ranges.at(given)...);
      ranges.bring_back();
      return result;
    }
  }

  Device& device_;
  const DeviceOps& ops_;
};

}  // namespace longhaul::testing
