#include "contracts/plan/units_at_once.h"

#include <algorithm>

namespace longhaul {

std::vector<bool> large_units(std::span<const ShardUnit> units) {
  std::vector<std::int64_t> sizes;
  for (const ShardUnit& unit : units) sizes.push_back(unit.flat.size());
  std::vector<bool> large(sizes.size());
  if (sizes.empty()) return large;
  std::vector<std::int64_t> sorted = sizes;
  const auto middle = sorted.begin() + std::ssize(sorted) / 2;
  std::nth_element(sorted.begin(), middle, sorted.end());
  for (std::size_t i = 0; i < sizes.size(); ++i) large[i] = sizes[i] > 2 * *middle;
  return large;
}

}  // namespace longhaul
