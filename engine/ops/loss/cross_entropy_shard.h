// Softmax cross-entropy where each rank holds some columns of the logits (Shoeybi et al. 2019, section 3; Megatron-LM's
// vocab-parallel cross-entropy): largest of each row, summed over ranks by maximum; then sums of exponentials and the
// target's logit, summed over ranks; then each rank's part of the gradient. The caller sends; these compute.
#pragma once

#include <span>

#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/tensor.h"

namespace longhaul {

// logits [tokens, columns]: columns [first, first + columns) of the vocabulary. f32; on a device of the type that their
// gradient is to have, f32 or bf16, so that they never lie there in f32 where the model is bf16.
struct LogitShard {
  std::int64_t tokens = 0, columns = 0;
  std::int64_t first = 0;
};

// tops[t] = largest of the row.
void shard_tops(const ComputeContext& context, LogitShard shard, ConstView logits, std::span<float> tops);

// With tops of the whole rows: sums[t] = sum of exp(z - top), sums[tokens + t] = z[target] - top, or 0 where the target
// (of the whole vocabulary, -1: none) is another shard's. sums [2 tokens].
void shard_sums(const ComputeContext& context, LogitShard shard, ConstView logits, std::span<const float> tops,
                std::span<const std::int32_t> targets, std::span<float> sums);

// loss[t] = log(sum) - (z[target] - top), 0 where there is no target; sums over all shards.
void losses_of_sums(const ComputeContext& context, std::span<const float> sums, std::span<const std::int32_t> targets,
                    std::span<float> loss);

// dz = weight (softmax - onehot) in this shard's columns, of type `dtype`, in the place of the logits; bf16 of f32
// logits in the first half of each row's own memory, rows then 2 * columns elements apart. The returned view is
// [tokens, row stride].
ConstView shard_gradient(const ComputeContext& context, LogitShard shard, View logits, std::span<const float> tops,
                         std::span<const float> sums, std::span<const std::int32_t> targets,
                         std::span<const float> weights, DType dtype);

}  // namespace longhaul
