// The operations of a device on memory of the host: what tests of single operations call, whose tensors are the host's.
// Each call takes all that its views and spans cover to the device, runs there, and brings back what may have been
// written. Views that overlap (slices of one matrix, an operation in place) overlap on the device as well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "engine/core/device.h"
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

  void take_in();     // after all of them
  void bring_back();  // waits

  ConstView at(ConstView view) const { return {there(view.data(), view.bytes()), view.dtype(), view.shape()}; }
  View at(View view) const { return {there(view.data(), view.bytes()), view.dtype(), view.shape()}; }
  template <class T>
  std::span<T> at(std::span<T> span) const {
    return {static_cast<T*>(there(span.data(), static_cast<std::int64_t>(span.size_bytes()))), span.size()};
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
  void attention_merge(const AttentionMergeShape& shape, ConstView part, ConstFloats part_lse, Floats out,
                       Floats lse) const override {
    run(&DeviceOps::attention_merge, shape, part, part_lse, out, lse);
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
  void copy_rows(const RowBlockShape& shape, ConstView from, View to) const override {
    run(&DeviceOps::copy_rows, shape, from, to);
  }
  void add_rows(const RowBlockShape& shape, ConstView from, Floats to) const override {
    run(&DeviceOps::add_rows, shape, from, to);
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
  template <class Result, class... Takes, class... Given>
  Result run(Result (DeviceOps::*operation)(Takes...) const, const Given&... given) const {
    StagedRanges ranges(device_);
    (ranges.add(given), ...);
    ranges.take_in();
    if constexpr (std::is_void_v<Result>) {
      (ops_.*operation)(ranges.at(given)...);
      ranges.bring_back();
    } else {
      const Result result = (ops_.*operation)(ranges.at(given)...);
      ranges.bring_back();
      return result;
    }
  }

  Device& device_;
  const DeviceOps& ops_;
};

}  // namespace longhaul::testing
