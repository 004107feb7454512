// Attention, with rotations before it and caches of keys and values.
#pragma once

#include "engine/ops/attention/attention.h"
#include "engine/ops/attention/kv_table.h"
#include "engine/ops/attention/paged_attention.h"
#include "engine/ops/attention/rope.h"
#include "engine/ops/device/device_op_group.h"

namespace longhaul {

class AttentionDeviceOps : public DeviceOpGroup {
 public:
  // The table lies in the memory of the host; it is taken to the device once and kept as long as it is the same.
  virtual void rope_apply(RopeShape shape, const RopeTable& table, Ids positions, std::int64_t seq, View x,
                          bool inverse) const;
  virtual void softmax_rows(std::int64_t rows, std::int64_t columns, ConstView logits, float temperature,
                            Floats probabilities) const;
  virtual void attention_forward(const AttentionShape& shape, ConstView q, ConstView k, ConstView v, View out,
                                 Floats lse, Ids first_key) const;
  virtual void attention_backward(const AttentionShape& shape, ConstView dout, ConstView q, ConstView k, ConstView v,
                                  ConstView out, ConstFloats lse, View dq, View dk, View dv, Ids first_key) const;
  virtual void attention_decode(const AttentionDecodeShape& shape, ConstView q, std::span<const KvCacheView> caches,
                                View out) const;
  virtual void attention_merge(const AttentionMergeShape& shape, ConstView part, ConstFloats part_lse, Floats out,
                               Floats lse) const;
  virtual void attention_decode_paged(const PagedShape& shape, ConstView q, ConstView keys, ConstView values, Ids table,
                                      Ids lengths, View out) const;
  virtual void paged_append(const PagedShape& shape, ConstView k, ConstView v, Ids table, Ids lengths, View keys,
                            View values) const;
  virtual void kv_append(const KvAppendShape& shape, ConstView qkv, Ids sequences, Ids positions,
                         std::span<const KvPlace> places, View q) const;
  virtual void attention_decode_table(const AttentionDecodeShape& shape, ConstView q, std::span<const KvPlace> places,
                                      std::int64_t longest, View out) const;
};

}  // namespace longhaul
