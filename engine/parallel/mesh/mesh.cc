#include "engine/parallel/mesh/mesh.h"

#include <utility>

#include "base/text/text.h"
#include "engine/parallel/mesh/axis_members.h"

namespace longhaul {

std::vector<RankCoordinates> Mesh::whole_coordinates() const {
  return whole_model_coordinates(dims_, at_);
}

std::vector<Mesh::OnAxis> Mesh::on_axes() const {
  std::vector<OnAxis> made;
  for (int axis = 0; axis <= mesh_axis_last; ++axis)
    if (Communicator* const ranks = axes_[static_cast<std::size_t>(axis)].ranks.get()) made.push_back({axis, ranks});
  return made;
}

void Mesh::make_group(int axis, Communicator& world) {
  const std::vector<int> members = axis_members(axis, dims_, at_);
  if (members.size() < 2) return;
  Axis& made = axes_[static_cast<std::size_t>(axis)];
  made.ranks = world.subgroup(number_of_group(axis), axis_name(axis), members);
  made.group = CollectiveGroup(*made.ranks, deadline_ms_);
}

Result<std::unique_ptr<Mesh>> Mesh::create(const ParallelDims& dims, Communicator& world, std::int64_t deadline_ms) {
  if (dims.world_size() != world.size())
    return make_error(ErrorCode::invalid_input, format("layout {} has {} ranks, the launch has {}", dims.to_string(),
                                                       dims.world_size(), world.size()));
  LH_CHECK(expert_dims_of(dims));
  auto mesh = std::make_unique<Mesh>();
  mesh->dims_ = dims;
  mesh->at_ = coordinates_of(dims, world.rank());
  mesh->deadline_ms_ = deadline_ms;
  mesh->group(world_axis) = CollectiveGroup(world, deadline_ms);
  for (int axis = 1; axis <= mesh_axis_last; ++axis) mesh->make_group(axis, world);
  return mesh;
}

}  // namespace longhaul
