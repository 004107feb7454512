#include "engine/train/gradients/gradient_tree.h"

#include <algorithm>
#include <bit>

#include "engine/core/tensor/transfer.h"
#include "engine/ops/pointwise/elementwise.h"

namespace longhaul {
namespace {
int tree_levels(int micro_batches) {
  return std::countr_zero(static_cast<unsigned>(micro_batches));
}
}  // namespace

GradientTree::GradientTree(std::int64_t flat_size, std::span<const int> micro_batches, bool deterministic,
                           MemoryAccount* account)
    : deterministic_(deterministic), leaf_(DType::f32, Shape{flat_size}, account) {
  begin(micro_batches.front());
  if (!deterministic) return;
  int levels = 0;
  for (const int count : micro_batches) levels = std::max(levels, tree_levels(count));
  for (int level = 0; level < levels; ++level) levels_.emplace_back(DType::f32, Shape{flat_size}, account);
}

void GradientTree::begin(int micro_batches) {
  LH_ASSERT(micro_batches > 0, std::to_string(micro_batches));
  micro_batches_ = micro_batches;
  group_ = deterministic_ ? micro_batches >> tree_levels(micro_batches) : micro_batches;
}

GradientTarget GradientTree::target(int index) {
  GradientTarget target;
  target.flat = leaf_.span<float>();
  target.overwrite = index % group_ == 0;
  return target;
}

void GradientTree::add(const ComputeContext& context, int index) {
  LH_ASSERT(index + 1 < micro_batches_, std::to_string(index));
  if (!group_ends(index)) return;
  // As a binary counter: a carry adds the waiting left subtree to the new right one.
  const auto done = static_cast<unsigned>(index / group_);
  std::size_t level = 0;
  for (; (done >> level) & 1U; ++level) axpy(context, 1.0F, levels_[level].span<float>(), leaf_.span<float>());
  std::swap(leaf_, levels_[level]);
}

void GradientTree::accept(const ComputeContext& context, FlatRange part, int index) {
  if (!group_ends(index)) return;
  const auto at = [&](std::size_t level) { return part_of(levels_[level].span<float>(), part); };
  const std::span<float> leaf = part_of(leaf_.span<float>(), part);
  const auto done = static_cast<unsigned>(index / group_);
  std::size_t level = 0;
  for (; (done >> level) & 1U; ++level) axpy(context, 1.0F, at(level), leaf);
  if (index + 1 < micro_batches_) copy_within(context, leaf, at(level));
}

std::int64_t GradientTree::bytes() const {
  std::int64_t bytes = leaf_.bytes();
  for (const Tensor& level : levels_) bytes += level.bytes();
  return bytes;
}

}  // namespace longhaul
