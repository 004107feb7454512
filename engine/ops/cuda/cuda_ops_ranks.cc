// CudaOps: what ranks that share a model need: row_blocks.h, cross_entropy_shard.h.
#include "base/text/text.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cuda/cuda_ops.h"
#include "engine/ops/cuda/loss/loss_shard_kernels.h"
#include "engine/ops/cuda/pointwise/row_block_kernels.h"

namespace longhaul::cuda {

using cpu::check_size;
using cpu::elements;
using cpu::with_float_type;

namespace {

Index extent_of(const RowBlockShape& s, Index stride) {
  return s.rows == 0 ? 0 : (s.rows - 1) * stride + s.columns;
}

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

void CudaOps::copy_rows(const RowBlockShape& s, ConstView from, View to) const {
  with_float_type(from.dtype(), "copy_rows", [&](auto of_from) {
    with_float_type(to.dtype(), "copy_rows", [&](auto of_to) {
      using T = decltype(of_from);
      using S = decltype(of_to);
      cuda::copy_rows(stream_, s.rows, s.columns, s.from_stride, s.to_stride,
                      elements<T>(from, extent_of(s, s.from_stride), "from"),
                      elements<S>(to, extent_of(s, s.to_stride), "to"));
    });
  });
}

void CudaOps::add_rows(const RowBlockShape& s, ConstView from, Floats to) const {
  check_size(to.size(), extent_of(s, s.to_stride), "to");
  with_float_type(from.dtype(), "add_rows", [&](auto type) {
    using T = decltype(type);
    cuda::add_rows(stream_, s.rows, s.columns, s.from_stride, s.to_stride,
                   elements<T>(from, extent_of(s, s.from_stride), "from"), to.data());
  });
}

void CudaOps::shard_tops(LogitShard s, ConstView logits, Floats tops) const {
  check_size(tops.size(), s.tokens, "tops");
  with_float_type(logits.dtype(), "shard_tops", [&](auto type) {
    using T = decltype(type);
    cuda::shard_tops(stream_, s.tokens, s.columns, elements<T>(logits, s.tokens * s.columns, "logits"), tops.data());
  });
}

void CudaOps::shard_sums(LogitShard s, ConstView logits, ConstFloats tops, Ids targets, Floats sums) const {
  check_size(sums.size(), 2 * s.tokens, "sums");
  with_float_type(logits.dtype(), "shard_sums", [&](auto type) {
    cuda::shard_sums(stream_, shard_of<decltype(type)>(s, logits, tops, targets), sums.data());
  });
}

void CudaOps::losses_of_sums(ConstFloats sums, Ids targets, Floats loss) const {
  const auto tokens = static_cast<Index>(targets.size());
  check_size(sums.size(), 2 * tokens, "sums"), check_size(loss.size(), tokens, "loss");
  cuda::losses_of_sums(stream_, tokens, sums.data(), targets.data(), loss.data());
}

void CudaOps::shard_gradient(LogitShard s, View logits, ConstFloats tops, ConstFloats sums, Ids targets,
                             ConstFloats weights) const {
  check_size(sums.size(), 2 * s.tokens, "sums"), check_size(weights.size(), s.tokens, "weights");
  with_float_type(logits.dtype(), "shard_gradient", [&](auto type) {
    using T = decltype(type);
    LossShard<T> shard = shard_of<T>(s, logits, tops, targets);
    shard.sums = sums.data(), shard.weights = weights.data();
    shard.gradient = elements<T>(logits, s.tokens * s.columns, "logits");
    cuda::shard_gradient(stream_, shard);
  });
}

}  // namespace longhaul::cuda
