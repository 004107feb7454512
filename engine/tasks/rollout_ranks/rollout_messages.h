// What ranks that train and ranks that draw tell each other, and the weights. As bytes, for programs that are the same,
// in the group of TaskRun::rollout_ranks. All of it is collective, in this order:
//
//   once       the drawing ranks' replies: they are ready, or what they lack
//   a rollout  an order with tasks; the weights; the replies with answers
//   once       an order with nothing to draw: the training has ended, and how
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/tensor/compute_context.h"
#include "engine/model/store/parameter_store.h"
#include "engine/parallel/mesh/collective_group.h"
#include "engine/tasks/rollouts/rollout.h"

namespace longhaul {

struct RolloutOrder {
  std::vector<RolloutTask> tasks;  // of all replicas, one replica's after the other's
  // Of each task: those with the same number are drawn together, by rank `number` modulo the ranks that draw. What is
  // computed at the same time decides the last bits of it.
  std::vector<std::size_t> batches;
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

// From rank 0 of the group: all weights of a whole store as they compute there, a parameter at a time: on processors in
// f32, on devices in the type that computes, through a copy of one parameter, which `memory` counts (null: the host).
// Collective; the error is the transport's.
Status send_weights(const ComputeContext& context, const ParameterStore& store, CollectiveGroup& ranks,
                    MemoryAccount* memory);
// On the others, into a whole store: the masters of one that computes in f32, or on a device one that nobody trains.
Status take_weights(ParameterStore& store, CollectiveGroup& ranks);

}  // namespace longhaul
