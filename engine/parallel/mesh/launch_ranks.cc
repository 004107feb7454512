#include "engine/parallel/mesh/launch_ranks.h"

#include <numeric>
#include <utility>
#include <vector>

#include "base/text/text.h"
#include "engine/comm/mesh_axes.h"

namespace longhaul {

namespace {

// Of the group of both parts. No group of the mesh has a member beside the ranks that train, and those that draw have
// groups of their own for the axes of their layout (engine/tasks/drawing), which is no data parallelism.
constexpr int number_of_rollouts = number_of_group(data_axis);

std::vector<int> numbers(int begin, int end) {
  std::vector<int> all(static_cast<std::size_t>(end - begin));
  std::iota(all.begin(), all.end(), begin);
  return all;
}

}  // namespace

Result<std::unique_ptr<LaunchRanks>> LaunchRanks::create(const ParallelDims& dims, int drawing,
                                                         std::unique_ptr<Communicator> world,
                                                         std::int64_t deadline_ms) {
  const int all = world->size(), trains = all - drawing, rank = world->rank();
  if (drawing > 0 && dims.world_size() != trains)
    return make_error(ErrorCode::invalid_input,
                      format("layout {} has {} ranks and rollout.ranks = {}, but the launch has {} ranks",
                             dims.to_string(), dims.world_size(), drawing, all),
                      format("start {}", dims.world_size() + drawing));
  std::unique_ptr<LaunchRanks> made(new LaunchRanks());
  made->world_ = std::move(world);
  if (drawing > 0 && (rank == 0 || rank >= trains)) {
    std::vector<int> members = numbers(trains, all);
    members.insert(members.begin(), 0);
    made->rollouts_ = made->world_->subgroup(number_of_rollouts, "rollouts", members);
    made->rollout_group_ = CollectiveGroup(*made->rollouts_, between_parts_ms);
  }
  if (rank >= trains || trains == 1) {
    made->mesh_ = std::make_unique<Mesh>(deadline_ms);
    return made;
  }
  if (drawing > 0) made->training_ = made->world_->subgroup(world_axis, "training", numbers(0, trains));
  LH_TRY(made->mesh_, Mesh::create(dims, made->training_ ? *made->training_ : *made->world_, deadline_ms));
  return made;
}

void LaunchRanks::replace_with(LaunchRanks&& fresh) {
  *mesh_ = std::move(*fresh.mesh_);
  rollout_group_ = fresh.rollout_group_;
  rollouts_ = std::move(fresh.rollouts_);
  training_ = std::move(fresh.training_);
  world_ = std::move(fresh.world_);
}

}  // namespace longhaul
