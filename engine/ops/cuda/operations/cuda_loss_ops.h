// Losses, and tokens drawn from logits on a GPU.
#pragma once

#include "engine/ops/cuda/operations/cuda_work.h"
#include "engine/ops/device/linear_device_ops.h"
#include "engine/ops/device/loss_device_ops.h"

namespace longhaul::cuda {

class CudaLossOps : public virtual LossDeviceOps {
 public:
  // Borrowed: work, linear.
  CudaLossOps(const CudaWork& work, const LinearDeviceOps& linear) : work_(work), linear_(linear) {}

  void cross_entropy_forward(CrossEntropyShape shape, ConstView logits, Ids targets, Floats loss) const override;
  void cross_entropy_forward_backward(CrossEntropyShape shape, ConstView logits, Ids targets, ConstFloats weights,
                                      Floats loss, View dlogits) const override;
  void lm_head_loss(const LmHeadShape& shape, ConstView x, ConstView weight, Ids targets, ConstFloats weights,
                    Floats loss, View dx, View dweight) const override;
  void sample_tokens(SampleShape shape, ConstView logits, std::span<SampleRow> rows, std::span<std::int32_t> seen,
                     std::span<std::int32_t> tokens) const override;
  void token_logprobs(SampleShape shape, ConstView logits, Ids tokens, std::int64_t top_count, std::span<double> chosen,
                      std::span<std::int32_t> top_tokens, std::span<double> top) const override;
  void shard_tops(LogitShard shard, ConstView logits, Floats tops) const override;
  void shard_sums(LogitShard shard, ConstView logits, ConstFloats tops, Ids targets, Floats sums) const override;
  void losses_of_sums(ConstFloats sums, Ids targets, Floats loss) const override;
  void shard_gradient(LogitShard shard, View logits, ConstFloats tops, ConstFloats sums, Ids targets,
                      ConstFloats weights) const override;

 private:
  const CudaWork& work_;
  const LinearDeviceOps& linear_;
};

}  // namespace longhaul::cuda
