// Attention, with rotations before it and caches of keys and values on a GPU.
#pragma once

#include <map>

#include "engine/ops/cuda/operations/attention_ways.h"
#include "engine/ops/cuda/operations/cuda_work.h"
#include "engine/ops/device/attention_device_ops.h"

namespace longhaul::cuda {

class CudaAttentionOps : public virtual AttentionDeviceOps {
 public:
  // Borrowed: work.
  explicit CudaAttentionOps(const CudaWork& work) : work_(work) {}

  void rope_apply(RopeShape shape, const RopeTable& table, Ids positions, std::int64_t seq, View x,
                  bool inverse) const override;
  void softmax_rows(std::int64_t rows, std::int64_t columns, ConstView logits, float temperature,
                    Floats probabilities) const override;
  void attention_forward(const AttentionShape& shape, ConstView q, ConstView k, ConstView v, View out, Floats lse,
                         Ids first_key) const override;
  void attention_backward(const AttentionShape& shape, ConstView dout, ConstView q, ConstView k, ConstView v,
                          ConstView out, ConstFloats lse, View dq, View dk, View dv, Ids first_key) const override;
  void attention_decode(const AttentionDecodeShape& shape, ConstView q, std::span<const KvCacheView> caches,
                        View out) const override;
  void attention_merge(const AttentionMergeShape& shape, ConstView part, ConstFloats part_lse, Floats out,
                       Floats lse) const override;
  void kv_append(const KvAppendShape& shape, ConstView qkv, Ids sequences, Ids positions,
                 std::span<const KvPlace> places, View q) const override;
  void attention_decode_table(const AttentionDecodeShape& shape, ConstView q, std::span<const KvPlace> places,
                              std::int64_t longest, View out) const override;
  void attention_decode_paged(const PagedShape& shape, ConstView q, ConstView keys, ConstView values, Ids table,
                              Ids lengths, View out) const override;
  void paged_append(const PagedShape& shape, ConstView k, ConstView v, Ids table, Ids lengths, View keys,
                    View values) const override;

  // Which implementation an attention takes, and what is said of it.
  AttentionWays& ways() { return ways_; }

 private:
  struct DeviceRope {
    std::int64_t positions = 0, half_dim = 0;
    float last = 0;  // tables of one size differ there
    DeviceMemory memory;
  };
  const CudaWork& work_;
  mutable std::map<const RopeTable*, DeviceRope> ropes_;
  mutable AttentionWays ways_;
};

}  // namespace longhaul::cuda
