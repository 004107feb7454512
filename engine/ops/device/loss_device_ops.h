// Losses, and tokens drawn from logits.
#pragma once

#include "engine/ops/device/device_op_group.h"
#include "engine/ops/loss/cross_entropy.h"
#include "engine/ops/loss/cross_entropy_shard.h"
#include "engine/ops/loss/sample.h"

namespace longhaul {

class LossDeviceOps : public DeviceOpGroup {
 public:
  virtual void cross_entropy_forward(CrossEntropyShape shape, ConstView logits, Ids targets, Floats loss) const;
  virtual void cross_entropy_forward_backward(CrossEntropyShape shape, ConstView logits, Ids targets,
                                              ConstFloats weights, Floats loss, View dlogits) const;
  virtual void lm_head_loss(const LmHeadShape& shape, ConstView x, ConstView weight, Ids targets, ConstFloats weights,
                            Floats loss, View dx, View dweight) const;
  virtual void sample_tokens(SampleShape shape, ConstView logits, std::span<SampleRow> rows,
                             std::span<std::int32_t> seen, std::span<std::int32_t> tokens) const;
  virtual void token_logprobs(SampleShape shape, ConstView logits, Ids tokens, std::int64_t top_count,
                              std::span<double> chosen, std::span<std::int32_t> top_tokens,
                              std::span<double> top) const;
  virtual void shard_tops(LogitShard shard, ConstView logits, Floats tops) const;
  virtual void shard_sums(LogitShard shard, ConstView logits, ConstFloats tops, Ids targets, Floats sums) const;
  virtual void losses_of_sums(ConstFloats sums, Ids targets, Floats loss) const;
  virtual void shard_gradient(LogitShard shard, View logits, ConstFloats tops, ConstFloats sums, Ids targets,
                              ConstFloats weights) const;
};

}  // namespace longhaul
