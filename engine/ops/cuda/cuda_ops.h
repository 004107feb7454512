// The operations on a GPU: what each needs of scratch memory, and which kernel it is. Host code of no CUDA header, so
// that tests run the same with emulated kernels (tests/support/emulated_device.h).
#pragma once

#include <map>
#include <memory>

#include "engine/core/device.h"
#include "engine/ops/cuda/device_gemm.h"
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
  void attention_forward(const AttentionShape& shape, ConstView q, ConstView k, ConstView v, View out, Floats lse,
                         Ids first_key) const override;
  void attention_backward(const AttentionShape& shape, ConstView dout, ConstView q, ConstView k, ConstView v,
                          ConstView out, ConstFloats lse, View dq, View dk, View dv, Ids first_key) const override;
  void adamw_update(const AdamWStep& step, Floats master, View m, View v, ConstFloats grad, View compute_copy,
                    const AdamWRounding* rounding) const override;
  // cuda_ops_decode.cc
  void gemv(LinearShape shape, ConstView x, ConstView weight, View y) const override;
  void linear_forward_int8(LinearShape shape, ConstView x, ConstView q, ConstFloats scales, View y) const override;
  void attention_decode(const AttentionDecodeShape& shape, ConstView q, std::span<const KvCacheView> caches,
                        View out) const override;
  void attention_merge(const AttentionMergeShape& shape, ConstView part, ConstFloats part_lse, Floats out,
                       Floats lse) const override;
  // cuda_ops_low_precision.cc
  void quantize_blocks(std::int64_t rows, std::int64_t columns, const BlockQuantization& how, ConstView x, View y,
                       QuantizationSums* sums) const override;
  void quantize_tensor(NumberFormat format, float scale, ConstView x, View y, QuantizationSums* sums) const override;
  float largest_magnitude(ConstView x) const override;
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
};

}  // namespace longhaul::cuda
