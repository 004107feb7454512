#include "engine/parallel/tensor/vocab_parallel_loss.h"

#include <algorithm>
#include <vector>

#include "engine/ops/linear/gemm.h"
#include "engine/ops/loss/cross_entropy_shard.h"

namespace longhaul {

void vocab_parallel_loss(const ComputeContext& context, TensorParallel& tensor, const VocabShard& shard, ConstView x,
                         ConstView weight, std::span<const std::int32_t> targets, std::span<const float> weights,
                         std::span<float> loss, View dx_partial, View dweight, const std::function<void()>& dx_ready) {
  const std::int64_t chunk = std::min(shard.chunk_tokens, shard.tokens);
  // Products of the processor use neither the first nor, on a device, the second.
  constexpr int logits_scratch = 2, sums_scratch = 3;
  const bool on_device = context.device() != nullptr;
  const DType type = on_device ? x.dtype() : DType::f32;
  std::byte* memory = context.scratch(logits_scratch, chunk * shard.rows * dtype_bytes(type));
  std::vector<float> on_host(on_device ? 0 : static_cast<std::size_t>(3 * chunk));
  float* of_rows = on_device ? reinterpret_cast<float*>(context.scratch(sums_scratch, 3 * chunk * 4)) : on_host.data();
  const std::span<float> tops(of_rows, static_cast<std::size_t>(chunk)),
      sums(of_rows + chunk, static_cast<std::size_t>(2 * chunk));
  const ConstView all_x = x.reshaped({shard.tokens, shard.hidden});
  for (std::int64_t begin = 0; begin < shard.tokens; begin += chunk) {
    const std::int64_t n = std::min(chunk, shard.tokens - begin);
    const auto at = static_cast<std::size_t>(begin), count = static_cast<std::size_t>(n);
    const LogitShard part{n, shard.rows, shard.first};
    const ConstView rows_x = all_x.rows(begin, begin + n);
    const View logits(memory, type, Shape{n, shard.rows});
    const auto targets_here = targets.subspan(at, count);
    const auto tops_here = tops.first(count), sums_here = sums.first(2 * count);
    GemmShape forward{.m = n, .n = shard.rows, .k = shard.hidden};
    forward.transpose_b = true;
    gemm(context, forward, rows_x, weight, logits);
    shard_tops(context, part, logits, tops_here);
    tensor.max(tops_here);
    shard_sums(context, part, logits, tops_here, targets_here, sums_here);
    tensor.sum(sums_here);
    losses_of_sums(context, sums_here, targets_here, loss.subspan(at, count));
    if (dx_partial.empty()) continue;
    const ConstView dz = shard_gradient(context, part, logits, tops_here, sums_here, targets_here,
                                        weights.subspan(at, count), x.dtype());
    GemmShape input{.m = n, .n = shard.hidden, .k = shard.rows};
    input.row_stride_a = dz.shape()[1];
    gemm(context, input, dz, weight, dx_partial.reshaped({shard.tokens, shard.hidden}).rows(begin, begin + n));
    if (begin + n == shard.tokens && dx_ready) dx_ready();
    if (dweight.empty()) continue;
    GemmShape gradient{.m = shard.rows, .n = shard.hidden, .k = n};
    gradient.transpose_a = true;
    gradient.beta = begin == 0 && !shard.accumulate ? 0.0F : 1.0F;
    gradient.row_stride_a = dz.shape()[1];
    gemm(context, gradient, dz, rows_x, dweight);
  }
}

}  // namespace longhaul
