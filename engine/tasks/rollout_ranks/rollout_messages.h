// What ranks that train and ranks that draw send each other, as bytes, for programs that are the same, in the group of
// TaskRun::rollout_ranks. All of it is collective, in this order:
//
//   once       the drawing ranks' replies: they are ready, or what they lack
//   a rollout  an order with tasks; the weights (weight_messages.h); the replies with answers
//   once       an order with nothing to draw: the training has ended, and how
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error/result.h"
#include "engine/tasks/rollouts/rollout.h"

namespace longhaul {

struct RolloutOrder {
  std::vector<RolloutTask> tasks;  // of all replicas, one replica's after the other's
  // Of each task: those with the same number are drawn together. What is computed at the same time decides the last
  // bits of it.
  std::vector<std::size_t> batches;
  // Of each task: whose answer it is, by number among the ranks that draw. It asks for it, and replies with it; its
  // team (engine/tasks/drawing/drawing_team.h) draws it, one team all of a batch.
  std::vector<int> ranks;
  Status training;  // where there are no tasks: how it ended
};
std::string pack_order(const RolloutOrder& order);
RolloutOrder unpack_order(std::string_view bytes);

std::string pack_tasks(std::span<const RolloutTask> tasks);
std::vector<RolloutTask> unpack_tasks(std::string_view bytes);

// A rank's answers, in the order of its tasks.
struct RolloutReply {
  std::vector<Rollout> rollouts;
  RolloutTimes times;
};
std::string pack_reply(const Result<RolloutReply>& reply);
Result<RolloutReply> unpack_reply(std::string_view bytes);

}  // namespace longhaul
