// The numbers of the axes of a mesh. engine/parallel/mesh/mesh.h says who the members of each are.
#pragma once

namespace longhaul {

inline constexpr int world_axis = 0, tensor_axis = 1, data_axis = 2, replica_axis = 3, pipeline_axis = 4,
                     pipeline_ends_axis = 5, shard_axis = 6, replicate_axis = 7, context_axis = 8, whole_axis = 9,
                     micro_batch_axis = 10, expert_axis = 11, expert_copy_axis = 12, expert_data_axis = 13,
                     expert_shard_axis = 14, expert_replicate_axis = 15, expert_tensor_axis = 16;
inline constexpr int mesh_axis_last = expert_tensor_axis;

// By which groups of the same parent differ (Communicator::subgroup): the axis, but for that of etp, which has the
// number of the experts' copies. No two ranks are in a group of both: one's members differ in etp alone, the other's in
// the copy alone.
constexpr int number_of_group(int axis) {
  return axis == expert_tensor_axis ? expert_copy_axis : axis;
}

}  // namespace longhaul
