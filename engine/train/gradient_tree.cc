#include "engine/train/gradient_tree.h"

#include <bit>

#include "engine/ops/elementwise.h"

namespace longhaul {

GradientTree::GradientTree(std::int64_t flat_size, int micro_batches, bool deterministic, MemoryAccount* account)
    : micro_batches_(micro_batches), leaf_(DType::f32, Shape{flat_size}, account), deterministic_(deterministic) {
  if (!deterministic) return;
  // The sum of a full tree stays in the leaf; of an incomplete one every subtree waits in a level of its own.
  const auto count = static_cast<unsigned>(micro_batches);
  const int levels = std::bit_width(count) - (std::has_single_bit(count) ? 1 : 0);
  for (int level = 0; level < levels; ++level) levels_.emplace_back(DType::f32, Shape{flat_size}, account);
}

GradientTarget GradientTree::target(int index) {
  GradientTarget target;
  target.flat = leaf_.span<float>();
  target.overwrite = deterministic_ || index == 0;
  return target;
}

void GradientTree::add(const ComputeContext& context, int index) {
  LH_ASSERT(index + 1 < micro_batches_, std::to_string(index));
  if (!deterministic_) return;
  // As a binary counter: a carry adds the waiting left subtree to the new right one.
  std::size_t level = 0;
  for (; (static_cast<unsigned>(index) >> level) & 1U; ++level)
    axpy(context, 1.0F, levels_[level].span<float>(), leaf_.span<float>());
  std::swap(leaf_, levels_[level]);
}

void GradientTree::accept(const ComputeContext& context, FlatRange part, int index) {
  if (!deterministic_) return;
  const auto at = [&](std::size_t level) { return part_of(levels_[level].span<float>(), part); };
  const std::span<float> leaf = part_of(leaf_.span<float>(), part);
  std::size_t level = 0;
  for (; (static_cast<unsigned>(index) >> level) & 1U; ++level) axpy(context, 1.0F, at(level), leaf);
  if (index + 1 < micro_batches_) {
    std::copy(leaf.begin(), leaf.end(), at(level).begin());
    return;
  }
  // Subtrees that are left, smallest (rightmost) first: left + right at each node. Without any the leaf is the sum.
  std::span<float> have = leaf;
  for (++level; level < levels_.size(); ++level) {
    if (((static_cast<unsigned>(micro_batches_) >> level) & 1U) == 0) continue;
    axpy(context, 1.0F, have, at(level));
    have = at(level);
  }
}

std::span<float> GradientTree::sum() {
  const bool full = std::has_single_bit(static_cast<unsigned>(micro_batches_));
  return !deterministic_ || full ? leaf_.span<float>() : levels_.back().span<float>();
}

std::int64_t GradientTree::bytes() const {
  std::int64_t bytes = leaf_.bytes();
  for (const Tensor& level : levels_) bytes += level.bytes();
  return bytes;
}

}  // namespace longhaul
