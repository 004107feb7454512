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
  join(shape, drawing, stages,
       [&mesh](int axis, const std::vector<int>& members) { return group_of(mesh, axis, members); });
}

DrawingTeam::DrawingTeam(CollectiveGroup& others, const ModelShape& shape, const ParallelDims& drawing,
                         std::int64_t deadline_ms)
    : rank_(others.rank() - 1), deadline_ms_(deadline_ms) {
  join(shape, drawing, {}, [&others](int axis, std::vector<int> members) {
    for (int& member : members) ++member;  // the first trains
    return members.size() < 2 ? Group() : make_group(*others.communicator(), axis, members);
  });
}

void DrawingTeam::join(const ModelShape& shape, const ParallelDims& drawing, const StageLayout& stages,
                       const GroupOf& group_of) {
  const RankCoordinates at = coordinates_of(drawing, rank_);
  const auto group = [&](int axis) { return group_of(axis, axis_members(axis, drawing, at)); };
  members_ = axis_members(replica_axis, drawing, at);
  tensor_ = group(tensor_axis), pipeline_ = group(pipeline_axis), all_ = group(replica_axis);
  if (all_.communicator) group_ = CollectiveGroup(*all_.communicator, deadline_ms_);
  place_ = drawing_place(drawing, shape, rank_, stages);
}

bool DrawingTeam::has(int rank) const {
  return std::ranges::find(members_, rank) != members_.end();
}

std::size_t DrawingTeam::index_of(int rank) const {
  return static_cast<std::size_t>(std::ranges::find(members_, rank) - members_.begin());
}

DrawingTeam::Group DrawingTeam::group_of(Mesh& mesh, int axis, const std::vector<int>& members) {
  if (members.size() < 2) return {};
  const std::vector<int> ranks = in_world(members, axis_members(replica_axis, mesh.dims(), mesh.at()));
  for (const Mesh::OnAxis& one : mesh.on_axes())
    if (one.communicator->members() == ranks) return {nullptr, one.communicator};
  return make_group(*mesh.replica().communicator(), axis, members);
}

DrawingTeam::Group DrawingTeam::make_group(Communicator& all, int axis, const std::vector<int>& members) {
  Group made;
  made.own = all.subgroup(number_of_group(axis), axis_name(axis), members);
  made.communicator = made.own.get();
  return made;
}

}  // namespace longhaul
