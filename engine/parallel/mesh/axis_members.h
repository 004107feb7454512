// Which ranks one rank works with on each axis of the mesh. Pure: a function of the layout and of where the rank
// stands.
#pragma once

#include <vector>

#include "contracts/layout/parallel_dims.h"

namespace longhaul {

// The name of an axis of engine/comm/mesh_axes.h in errors: "dp_shard", "pipeline ends".
const char* axis_name(int axis);

// The members of the axis `axis` (1 to mesh_axis_last) as ranks of the world in its order, the rank at `at` among them;
// empty where the axis has none with it: between the ends of a pipeline. Every member gets the same list. Of a layout
// that expert_dims_of accepts.
std::vector<int> axis_members(int axis, const ParallelDims& dims, const RankCoordinates& at);

// Where the members of whole_axis stand: neighbouring replicas that hold one set of experts together.
std::vector<RankCoordinates> whole_model_coordinates(const ParallelDims& dims, const RankCoordinates& at);

}  // namespace longhaul
