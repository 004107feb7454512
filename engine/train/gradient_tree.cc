#include "engine/train/gradient_tree.h"

#include <bit>

#include "engine/ops/elementwise.h"

namespace longhaul {

GradientTree::GradientTree(std::int64_t flat_size, int micro_batches, bool deterministic, MemoryAccount* account)
    : leaf_(DType::f32, Shape{flat_size}, account), deterministic_(deterministic) {
  if (!deterministic) return;
  // The sum of a full tree stays in the leaf; of an incomplete one every subtree waits in a level of its own.
  const auto count = static_cast<unsigned>(micro_batches);
  const int levels = std::bit_width(count) - (std::has_single_bit(count) ? 1 : 0);
  for (int level = 0; level < levels; ++level) levels_.emplace_back(DType::f32, Shape{flat_size}, account);
}

void GradientTree::begin() {
  count_ = 0;
}

GradientTarget GradientTree::target() {
  GradientTarget target;
  target.flat = leaf_.span<float>();
  target.overwrite = deterministic_ || count_ == 0;
  return target;
}

void GradientTree::add(const ComputeContext& context) {
  if (deterministic_) {
    // As a binary counter: a carry adds the waiting left subtree to the new right one.
    std::size_t level = 0;
    for (; (static_cast<unsigned>(count_) >> level) & 1U; ++level)
      axpy(context, 1.0F, levels_[level].span<float>(), leaf_.span<float>());
    // The last carry of a full tree stays in the leaf: nothing follows it.
    if (level < levels_.size()) std::swap(leaf_, levels_[level]);
  }
  ++count_;
}

std::span<float> GradientTree::finish(const ComputeContext& context) {
  LH_ASSERT(count_ > 0, "no gradient was added");
  if (!deterministic_) return leaf_.span<float>();
  // Subtrees that are left, smallest (rightmost) first: left + right at each node.
  const auto bits = static_cast<unsigned>(count_);
  const int top = std::bit_width(bits) - 1;
  const auto at = [&](int level) -> Tensor& {
    return static_cast<std::size_t>(level) < levels_.size() ? levels_[static_cast<std::size_t>(level)] : leaf_;
  };
  int have = std::countr_zero(bits);
  for (int level = have + 1; level <= top; ++level) {
    if (((bits >> level) & 1U) == 0) continue;
    axpy(context, 1.0F, at(have).span<float>(), at(level).span<float>());
    have = level;
  }
  return at(have).span<float>();
}

std::int64_t GradientTree::bytes() const {
  std::int64_t bytes = leaf_.bytes();
  for (const Tensor& level : levels_) bytes += level.bytes();
  return bytes;
}

}  // namespace longhaul
