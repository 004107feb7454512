#include "engine/parallel/mesh/axis_members.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "engine/comm/mesh_axes.h"

namespace longhaul {
namespace {

using Ranks = std::vector<int>;

Ranks members(int axis, const ParallelDims& dims, int rank) {
  return axis_members(axis, dims, coordinates_of(dims, rank));
}

TEST_CASE("each axis joins the ranks that differ in its coordinate alone") {
  ParallelDims dims;  // rank = tp + 2 * (cp + 2 * (dp_shard + 2 * (dp_replicate + 2 * pp)))
  dims.tp = dims.cp = dims.dp_shard = dims.dp_replicate = dims.pp = 2;
  CHECK(members(tensor_axis, dims, 5) == Ranks{4, 5});
  CHECK(members(context_axis, dims, 5) == Ranks{5, 7});
  CHECK(members(shard_axis, dims, 5) == Ranks{1, 5});
  CHECK(members(replicate_axis, dims, 5) == Ranks{5, 13});
  CHECK(members(pipeline_axis, dims, 5) == Ranks{5, 21});
  CHECK(members(data_axis, dims, 5) == Ranks{1, 5, 9, 13});
  CHECK(members(micro_batch_axis, dims, 5) == Ranks{4, 5, 6, 7});
  CHECK(members(replica_axis, dims, 5) == Ranks{4, 5, 6, 7, 20, 21, 22, 23});
  CHECK(members(whole_axis, dims, 5) == members(replica_axis, dims, 5));
}

TEST_CASE("the ends of a pipeline are its first and its last stage; those between are in no such group") {
  ParallelDims dims;
  dims.tp = 2, dims.pp = 4;
  CHECK(members(pipeline_axis, dims, 3) == Ranks{1, 3, 5, 7});
  CHECK(members(pipeline_ends_axis, dims, 1) == Ranks{1, 7});
  CHECK(members(pipeline_ends_axis, dims, 7) == Ranks{1, 7});
  CHECK(members(pipeline_ends_axis, dims, 3).empty());
}

TEST_CASE("experts regroup the ranks of a stage: neighbours hold all of them, the others hold copies") {
  ParallelDims dims;
  dims.tp = 2, dims.dp_shard = 4, dims.ep = 4;
  CHECK(members(expert_axis, dims, 5) == Ranks{4, 5, 6, 7});
  CHECK(members(expert_data_axis, dims, 5) == Ranks{1, 5});
  CHECK(members(whole_axis, dims, 5) == Ranks{4, 5, 6, 7});
  const std::vector<RankCoordinates> whole = whole_model_coordinates(dims, coordinates_of(dims, 5));
  REQUIRE(whole.size() == 4);
  CHECK(global_rank_of(dims, whole.front()) == 4);

  dims.ep = 1;  // each rank has all experts: those of a micro-batch are copies
  CHECK(members(expert_copy_axis, dims, 5) == Ranks{4, 5});
}

TEST_CASE("ranks with parts of the same experts are a group; no two of them are in another group of its number") {
  ParallelDims dims;
  dims.tp = 4, dims.etp = 2, dims.dp_replicate = 2;  // and two copies of the experts
  CHECK(members(expert_tensor_axis, dims, 5) == Ranks{4, 5});
  CHECK(members(expert_copy_axis, dims, 5) == Ranks{5, 7});
  CHECK(number_of_group(expert_tensor_axis) == number_of_group(expert_copy_axis));
  for (int axis = 1; axis <= mesh_axis_last; ++axis) CHECK(number_of_group(axis) < 16);
  dims.tp = 1, dims.dp_replicate = 4, dims.ep = 2;  // over replicas
  CHECK(members(expert_tensor_axis, dims, 2) == Ranks{2, 3});
}

TEST_CASE("all members of a group name the same ranks in the same order, themselves among them") {
  std::vector<ParallelDims> all(3);
  all[0].tp = 2, all[0].pp = 3, all[0].dp_shard = 2;
  all[1].cp = 2, all[1].dp_shard = 2, all[1].dp_replicate = 2, all[1].ep = 4;
  all[2].tp = 2, all[2].etp = 2, all[2].ep = 2, all[2].dp_shard = 4;
  for (const ParallelDims& dims : all)
    for (int axis = 1; axis <= mesh_axis_last; ++axis)
      for (int rank = 0; rank < dims.world_size(); ++rank) {
        CAPTURE(dims.to_string());
        CAPTURE(axis_name(axis));
        const Ranks group = members(axis, dims, rank);
        if (axis != pipeline_ends_axis) CHECK(std::find(group.begin(), group.end(), rank) != group.end());
        for (const int other : group) CHECK(members(axis, dims, other) == group);
      }
}

}  // namespace
}  // namespace longhaul
