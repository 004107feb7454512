// Room engine/tasks/rollout_ranks
// Ranks of a launch that train nothing and draw the answers of the next rollout for those that train (rollout.ranks).
// rollout_ranks.h is the side of the training, drawing_rank.h that of a rank that draws; rollout_messages.h and
// weight_messages.h are what they send each other. engine/parallel/mesh/launch_ranks.h parts the ranks; answers
// themselves are engine/tasks/rollouts. It knows no stage.
//
// The side of the training: what is to be drawn goes to the ranks that draw (drawing_rank.h) with the weights as they
// stand, and answers come back when they are asked for. One rollout is under way at a time. The first rank of the mesh
// speaks for all of them; the others have what it has through the mesh. Belongs to the thread of the rank.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/tasks/common/task_run.h"
#include "engine/tasks/rollout_ranks/rollout_messages.h"
#include "engine/tasks/rollouts/rollouts.h"

namespace longhaul {

class RolloutRanks final : public OtherRanks {
 public:
  // Borrows the run. With rollout.ranks = 0 there are none, and nothing of OtherRanks is asked for.
  RolloutRanks(TaskRun& run, const RolloutSettings& rollout)
      : run_(run), count_(static_cast<int>(rollout.ranks)), together_(static_cast<int>(rollout.tp * rollout.pp)) {}
  bool are_there() const { return count_ > 0; }
  // The launch has as many beside the mesh as the settings say. Collective over the mesh, as begin() and finish().
  Status check() const;

  // Waits until the weights are there, for the first time also until the ranks are ready.
  Status begin(const ParameterStore& weights, std::span<const RolloutTask> tasks, std::size_t group) override;
  bool has_begun() const override { return tasks_ > 0; }
  // The times are those of the slowest rank. What a rank lacks is an error that names it.
  Result<std::vector<Rollout>> finish(RolloutTimes& times) override;
  // How the training has ended, to the ranks that draw; the outcome is the training's own. Not collective.
  Status end(Status training);

 private:
  // `tasks`: of each replica, packed.
  RolloutOrder order_of(const std::vector<std::string>& tasks, std::size_t group) const;
  // Until those that draw have said that they are ready. On the first rank.
  Status wait_until_ready() const;
  Result<std::vector<RolloutReply>> replies(CollectiveGroup& ranks) const;
  Result<RolloutReply> collect() const;

  TaskRun& run_;
  int count_, together_;    // ranks that draw; of a team
  bool ready_ = false;      // they have said so
  std::size_t tasks_ = 0;   // of a replica, under way; 0: nothing is
  std::vector<int> whose_;  // of all tasks; on the first rank
};

}  // namespace longhaul
