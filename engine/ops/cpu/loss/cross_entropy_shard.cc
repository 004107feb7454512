#include "engine/ops/loss/cross_entropy_shard.h"

#include <algorithm>
#include <cmath>

#include "engine/core/tensor/parallel_for.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cpu/simd/kernels.h"
#include "engine/ops/device_ops.h"

namespace longhaul {
namespace {

using cpu::Index;
constexpr Index grain = 8;  // rows

Index local_target(const LogitShard& shard, std::int32_t target) {
  const Index local = target - shard.first;
  return target >= 0 && local >= 0 && local < shard.columns ? local : -1;
}

}  // namespace

void shard_tops(const ComputeContext& context, LogitShard shard, ConstView logits, std::span<float> tops) {
  if (const DeviceOps* device = context.device_ops()) return device->shard_tops(shard, logits, tops);
  const auto* z = cpu::elements<float>(logits, shard.tokens * shard.columns, "logits");
  cpu::check_size(tops.size(), shard.tokens, "tops");
  parallel_for(context, shard.tokens, grain, [&](Index begin, Index end) {
    for (Index t = begin; t < end; ++t)
      tops[static_cast<std::size_t>(t)] = cpu::kernels(context).row_top(z + t * shard.columns, shard.columns);
  });
}

void shard_sums(const ComputeContext& context, LogitShard shard, ConstView logits, std::span<const float> tops,
                std::span<const std::int32_t> targets, std::span<float> sums) {
  if (const DeviceOps* device = context.device_ops()) return device->shard_sums(shard, logits, tops, targets, sums);
  const auto* z = cpu::elements<float>(logits, shard.tokens * shard.columns, "logits");
  cpu::check_size(sums.size(), 2 * shard.tokens, "sums");
  cpu::check_size(targets.size(), shard.tokens, "targets");
  parallel_for(context, shard.tokens, grain, [&](Index begin, Index end) {
    for (Index t = begin; t < end; ++t) {
      const auto i = static_cast<std::size_t>(t);
      const float* row = z + t * shard.columns;
      const Index target = local_target(shard, targets[i]);
      sums[i] = cpu::kernels(context).row_exp_total(row, shard.columns, tops[i]);
      sums[static_cast<std::size_t>(shard.tokens) + i] = target >= 0 ? row[target] - tops[i] : 0.0F;
    }
  });
}

void losses_of_sums(const ComputeContext& context, std::span<const float> sums, std::span<const std::int32_t> targets,
                    std::span<float> loss) {
  if (const DeviceOps* device = context.device_ops()) return device->losses_of_sums(sums, targets, loss);
  const std::size_t tokens = targets.size();
  LH_ASSERT(sums.size() == 2 * tokens && loss.size() >= tokens, std::to_string(sums.size()));
  for (std::size_t t = 0; t < tokens; ++t) loss[t] = targets[t] < 0 ? 0.0F : std::log(sums[t]) - sums[tokens + t];
}

ConstView shard_gradient(const ComputeContext& context, LogitShard shard, View logits, std::span<const float> tops,
                         std::span<const float> sums, std::span<const std::int32_t> targets,
                         std::span<const float> weights, DType dtype) {
  if (const DeviceOps* device = context.device_ops()) {
    LH_ASSERT(logits.dtype() == dtype, std::string("logits on a device in ") + dtype_name(logits.dtype()));
    device->shard_gradient(shard, logits, tops, sums, targets, weights);
    return logits.reshaped({shard.tokens, shard.columns});
  }
  auto* z = cpu::elements<float>(logits, shard.tokens * shard.columns, "logits");
  auto* half = reinterpret_cast<bf16*>(z);
  const bool narrow = dtype == DType::bf16;
  const Index stride = narrow ? 2 * shard.columns : shard.columns;
  parallel_for(context, shard.tokens, grain, [&](Index begin, Index end) {
    for (Index t = begin; t < end; ++t) {
      const auto i = static_cast<std::size_t>(t);
      float* row = z + t * shard.columns;
      const Index target = local_target(shard, targets[i]);
      const float weight = targets[i] < 0 ? 0.0F : weights[i];
      if (weight == 0.0F)
        std::fill(row, row + shard.columns, 0.0F);  // zeros of either type
      else if (narrow)
        cpu::kernels(context).cross_entropy_shard_to_bf16(row, shard.columns, target, weight, tops[i], sums[i],
                                                          half + t * stride);
      else
        cpu::kernels(context).cross_entropy_shard(row, shard.columns, target, weight, tops[i], sums[i], row);
    }
  });
  return narrow ? ConstView(half, Shape{shard.tokens, stride}) : ConstView(z, Shape{shard.tokens, stride});
}

}  // namespace longhaul
