#include "engine/train/gradients/gradient_sum.h"

#include <algorithm>

#include "engine/train/gradients/bucket_gradient_sum.h"
#include "engine/train/gradients/tree_gradient_sum.h"

namespace longhaul {

std::unique_ptr<GradientSum> make_gradient_sum(const ParameterLayout& layout, Mesh& mesh, ContributionGuard& guard,
                                               const GradientSumOptions& options, MemoryAccount* account) {
  if (mesh.dims().zero >= 2) return std::make_unique<BucketGradientSum>(layout, mesh, guard, options, account);
  return std::make_unique<TreeGradientSum>(layout, mesh, guard, options, account);
}

Status sum_over_replicates(const ParameterLayout& layout, Mesh& mesh, ContributionGuard& guard,
                           std::span<float> owned) {
  if (std::ranges::none_of(layout.units(), [](const ShardUnit& unit) { return unit.experts; }))
    return guard.sum_along_tree(mesh.replicates(), owned);
  for (std::size_t unit = 0; unit < layout.units().size(); ++unit) {
    CollectiveGroup& ranks = mesh.replicates(layout.units()[unit].experts);
    LH_CHECK(guard.sum_along_tree(ranks, part_of(owned, layout.owned().pieces()[unit].packed())));
  }
  return {};
}

UnitProgress::UnitProgress(const ParameterLayout& layout) : layout_(layout), parameters_(layout.units().size()) {
  std::size_t unit = 0;
  for (const FlatParameter& p : layout.parameters()) {
    while (p.begin >= layout.units()[unit].flat.end) ++unit;
    unit_of_.push_back(static_cast<int>(unit));
    ++parameters_[unit];
  }
  begin();
}

void UnitProgress::begin() {
  missing_ = parameters_;
}

std::vector<int> UnitProgress::ready(std::int64_t begin, std::int64_t end) {
  std::vector<int> complete;
  const std::vector<FlatParameter>& all = layout_.parameters();
  auto p = std::lower_bound(all.begin(), all.end(), begin,
                            [](const FlatParameter& one, std::int64_t at) { return one.begin < at; });
  for (; p != all.end() && p->end <= end; ++p) {
    const int unit = unit_of_[static_cast<std::size_t>(p - all.begin())];
    int& missing = missing_[static_cast<std::size_t>(unit)];
    LH_ASSERT(missing > 0, p->spec.name + " is said to be ready twice");
    if (--missing == 0) complete.push_back(unit);
  }
  return complete;
}

}  // namespace longhaul
