#include "engine/ops/device/attention_device_ops.h"

namespace longhaul {

void AttentionDeviceOps::rope_apply(RopeShape, const RopeTable&, Ids, std::int64_t, View, bool) const {
  missing("rope_apply");
}
void AttentionDeviceOps::softmax_rows(std::int64_t, std::int64_t, ConstView, float, Floats) const {
  missing("softmax_rows");
}
void AttentionDeviceOps::attention_forward(const AttentionShape&, ConstView, ConstView, ConstView, View, Floats,
                                           Ids) const {
  missing("attention_forward");
}
void AttentionDeviceOps::attention_backward(const AttentionShape&, ConstView, ConstView, ConstView, ConstView,
                                            ConstView, ConstFloats, View, View, View, Ids) const {
  missing("attention_backward");
}
void AttentionDeviceOps::attention_decode(const AttentionDecodeShape&, ConstView, std::span<const KvCacheView>,
                                          View) const {
  missing("attention_decode");
}
void AttentionDeviceOps::attention_merge(const AttentionMergeShape&, ConstView, ConstFloats, Floats, Floats) const {
  missing("attention_merge");
}
void AttentionDeviceOps::attention_decode_paged(const PagedShape&, ConstView, ConstView, ConstView, Ids, Ids,
                                                View) const {
  missing("attention_decode_paged");
}
void AttentionDeviceOps::paged_append(const PagedShape&, ConstView, ConstView, Ids, Ids, View, View) const {
  missing("paged_append");
}
void AttentionDeviceOps::kv_append(const KvAppendShape&, ConstView, Ids, Ids, std::span<const KvPlace>, View) const {
  missing("kv_append");
}
void AttentionDeviceOps::attention_decode_table(const AttentionDecodeShape&, ConstView, std::span<const KvPlace>,
                                                std::int64_t, View) const {
  missing("attention_decode_table");
}

}  // namespace longhaul
