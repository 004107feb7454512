// The ranks that one rank works with along one direction of the mesh. Pure: a function of the layout and of where the
// rank stands. The engine's groups are made of them (engine/parallel/mesh/axis_members.h), and docs/figures/mesh.svg.
#pragma once

#include <initializer_list>
#include <vector>

#include "contracts/layout/parallel_dims.h"

namespace longhaul {

// The ranks of the world that differ from `at` in one coordinate at most, in the world's order.
std::vector<int> ranks_along(const ParallelDims& dims, const RankCoordinates& at, int RankCoordinates::* coordinate);

// The same as the expert layers see the ranks of a pipeline stage; `coordinates` are those that may differ. Of a layout
// that expert_dims_of accepts.
std::vector<int> expert_ranks_along(const ParallelDims& dims, const RankCoordinates& at,
                                    std::initializer_list<int ExpertCoordinates::*> coordinates);

}  // namespace longhaul
