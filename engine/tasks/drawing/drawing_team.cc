#include "engine/tasks/drawing/drawing_team.h"

#include <algorithm>

#include "contracts/plan/rollout/drawing_layout.h"
#include "engine/parallel/mesh/axis_members.h"

namespace longhaul {

namespace {

// As ranks of the world.
std::vector<int> in_world(const std::vector<int>& of_replica, const std::vector<int>& replica) {
  std::vector<int> ranks;
  for (const int rank : of_replica) ranks.push_back(replica[static_cast<std::size_t>(rank)]);
  return ranks;
}

}  // namespace

DrawingTeam::DrawingTeam(Mesh& mesh, const ModelShape& shape, const ParallelDims& drawing, const StageLayout& stages)
    : rank_(mesh.replica().rank()), deadline_ms_(mesh.deadline_ms()) {
  const RankCoordinates at = coordinates_of(drawing, rank_);
  const auto group = [&](int axis) { return group_of(mesh, axis, axis_members(axis, drawing, at)); };
  members_ = axis_members(replica_axis, drawing, at);
  tensor_ = group(tensor_axis), pipeline_ = group(pipeline_axis), all_ = group(replica_axis);
  if (all_.communicator) group_ = CollectiveGroup(*all_.communicator, deadline_ms_);
  place_ = drawing_place(drawing, shape, rank_, stages);
}

bool DrawingTeam::has(int rank_of_replica) const {
  return std::ranges::find(members_, rank_of_replica) != members_.end();
}

std::size_t DrawingTeam::index_of(int rank_of_replica) const {
  return static_cast<std::size_t>(std::ranges::find(members_, rank_of_replica) - members_.begin());
}

DrawingTeam::Group DrawingTeam::group_of(Mesh& mesh, int axis, const std::vector<int>& members) {
  if (members.size() < 2) return {};
  const std::vector<int> ranks = in_world(members, axis_members(replica_axis, mesh.dims(), mesh.at()));
  for (const Mesh::OnAxis& one : mesh.on_axes())
    if (one.communicator->members() == ranks) return {nullptr, one.communicator};
  Group made;
  made.own = mesh.replica().communicator()->subgroup(number_of_group(axis), axis_name(axis), members);
  made.communicator = made.own.get();
  return made;
}

}  // namespace longhaul
