// What ranks that share a model need: row_blocks.h, cross_entropy_shard.h.
#include "base/text/text.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cuda/loss/loss_shard_kernels.h"
#include "engine/ops/cuda/operations/cuda_loss_ops.h"

namespace longhaul::cuda {

using cpu::check_size;
using cpu::elements;
using cpu::with_float_type;

namespace {

template <class T>
LossShard<T> shard_of(LogitShard s, ConstView logits, std::span<const float> tops,
                      std::span<const std::int32_t> targets) {
  check_size(tops.size(), s.tokens, "tops"), check_size(targets.size(), s.tokens, "targets");
  LossShard<T> shard{};
  shard.tokens = s.tokens, shard.columns = s.columns, shard.first = s.first;
  shard.logits = elements<T>(logits, s.tokens * s.columns, "logits");
  shard.tops = tops.data(), shard.targets = targets.data();
  return shard;
}

}  // namespace

void CudaLossOps::shard_tops(LogitShard s, ConstView logits, Floats tops) const {
  check_size(tops.size(), s.tokens, "tops");
  with_float_type(logits.dtype(), "shard_tops", [&](auto type) {
    using T = decltype(type);
    cuda::shard_tops(work_.stream, s.tokens, s.columns, elements<T>(logits, s.tokens * s.columns, "logits"),
                     tops.data());
  });
}

void CudaLossOps::shard_sums(LogitShard s, ConstView logits, ConstFloats tops, Ids targets, Floats sums) const {
  check_size(sums.size(), 2 * s.tokens, "sums");
  with_float_type(logits.dtype(), "shard_sums", [&](auto type) {
    cuda::shard_sums(work_.stream, shard_of<decltype(type)>(s, logits, tops, targets), sums.data());
  });
}

void CudaLossOps::losses_of_sums(ConstFloats sums, Ids targets, Floats loss) const {
  const auto tokens = static_cast<Index>(targets.size());
  check_size(sums.size(), 2 * tokens, "sums"), check_size(loss.size(), tokens, "loss");
  cuda::losses_of_sums(work_.stream, tokens, sums.data(), targets.data(), loss.data());
}

void CudaLossOps::shard_gradient(LogitShard s, View logits, ConstFloats tops, ConstFloats sums, Ids targets,
                                 ConstFloats weights) const {
  check_size(sums.size(), 2 * s.tokens, "sums"), check_size(weights.size(), s.tokens, "weights");
  with_float_type(logits.dtype(), "shard_gradient", [&](auto type) {
    using T = decltype(type);
    LossShard<T> shard = shard_of<T>(s, logits, tops, targets);
    shard.sums = sums.data(), shard.weights = weights.data();
    shard.gradient = elements<T>(logits, s.tokens * s.columns, "logits");
    cuda::shard_gradient(work_.stream, shard);
  });
}

}  // namespace longhaul::cuda
