// The sums of an objective over all micro-batches of the global batch, from those of each rank.
#pragma once

#include <span>
#include <vector>

#include "engine/parallel/mesh/mesh.h"
#include "engine/train/step/objective.h"

namespace longhaul {

// Over all micro-batches, and which of them is the worst: the first whose loss is no number, or the one of the largest
// mean.
struct GroupSums {
  ObjectiveSums sums;
  std::int64_t worst = 0;
};

// The numbers of ObjectiveSums as ranks exchange them: loss, count, tokens, computed, `extra`, then `largest`.
inline constexpr std::size_t packed_sums_fields = 5 + objective_extras;
void pack_sums(const ObjectiveSums& sums, std::span<double> packed);
// Of packed micro-batches in the order of the global micro-batch index, one after the other: no layout changes the sum.
GroupSums group_sums_of(std::span<const double> packed);

// `mine`: of the micro-batches of this rank; `total`: how many all replicas have together. Collective over the ranks of
// the mesh; alike on all of them.
Result<GroupSums> sum_over_group(Mesh& mesh, const std::vector<ObjectiveSums>& mine, std::int64_t total);

}  // namespace longhaul
