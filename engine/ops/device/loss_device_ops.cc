#include "engine/ops/device/loss_device_ops.h"

namespace longhaul {

void LossDeviceOps::cross_entropy_forward(CrossEntropyShape, ConstView, Ids, Floats) const {
  missing("cross_entropy_forward");
}
void LossDeviceOps::cross_entropy_forward_backward(CrossEntropyShape, ConstView, Ids, ConstFloats, Floats, View) const {
  missing("cross_entropy_forward_backward");
}
void LossDeviceOps::lm_head_loss(const LmHeadShape&, ConstView, ConstView, Ids, ConstFloats, Floats, View, View) const {
  missing("lm_head_loss");
}
void LossDeviceOps::sample_tokens(SampleShape, ConstView, std::span<SampleRow>, std::span<std::int32_t>,
                                  std::span<std::int32_t>) const {
  missing("sample_tokens");
}
void LossDeviceOps::token_logprobs(SampleShape, ConstView, Ids, std::int64_t, std::span<double>,
                                   std::span<std::int32_t>, std::span<double>) const {
  missing("token_logprobs");
}
void LossDeviceOps::shard_tops(LogitShard, ConstView, Floats) const {
  missing("shard_tops");
}
void LossDeviceOps::shard_sums(LogitShard, ConstView, ConstFloats, Ids, Floats) const {
  missing("shard_sums");
}
void LossDeviceOps::losses_of_sums(ConstFloats, Ids, Floats) const {
  missing("losses_of_sums");
}
void LossDeviceOps::shard_gradient(LogitShard, View, ConstFloats, ConstFloats, Ids, ConstFloats) const {
  missing("shard_gradient");
}

}  // namespace longhaul
