// The ranks of a launch in two parts: the first ones are the mesh that trains; the last ones, where the stage asks for
// any (rollout.ranks), draw answers for it (engine/tasks/rollout_ranks). Communicators of both are made of the
// launch's; belongs to one thread.
#pragma once

#include <memory>

#include "engine/parallel/mesh/mesh.h"

namespace longhaul {

// Of an operation between the two parts, one of which works while the other waits. A rank that stands still is found by
// its page (resiliency/detect/hang), long before.
inline constexpr std::int64_t between_parts_ms = std::int64_t{7} * 24 * 3'600'000;

class LaunchRanks {
 public:
  // `world`: all ranks of the launch. invalid_input where these are not the layout's and `drawing` more. The mesh's
  // operations have deadline_ms, those of rollout_ranks() between_parts_ms.
  static Result<std::unique_ptr<LaunchRanks>> create(const ParallelDims& dims, int drawing,
                                                     std::unique_ptr<Communicator> world, std::int64_t deadline_ms);

  // Of the ranks that train; of a rank that draws: itself alone.
  Mesh& mesh() { return *mesh_; }
  // The first rank that trains and those that draw, in this order; null on all others.
  CollectiveGroup* rollout_ranks() { return rollouts_ ? &rollout_group_ : nullptr; }
  // Those of a later epoch take the place of these; mesh() and rollout_ranks() stay where they are.
  void replace_with(LaunchRanks&& fresh);

 private:
  LaunchRanks() = default;
  std::unique_ptr<Communicator> world_, training_;  // training_: null where it is all of the world, or one rank
  std::unique_ptr<Communicator> rollouts_;          // null: none, or this rank is not in it
  CollectiveGroup rollout_group_;
  std::unique_ptr<Mesh> mesh_;  // last: its communicators are of those above
};

}  // namespace longhaul
