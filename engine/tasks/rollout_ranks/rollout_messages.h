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

// Elements of parameters that go in one message on processors: a rank that waits for one on a core that others use,
// too, gets that core some milliseconds late, once for each message.
inline constexpr std::int64_t weights_together = 4 << 20;

// From rank 0 of the group: all weights of a whole store as they compute there: on processors in f32, as many
// parameters at a time as have `together` elements, one at least; on devices in the type that computes, one at a time.
// They go through a copy of a message, which `memory` counts (null: the host). Collective; the error is the
// transport's.
Status send_weights(const ComputeContext& context, const ParameterStore& store, CollectiveGroup& ranks,
                    MemoryAccount* memory, std::int64_t together = weights_together);
// On the others, with the same `together`, into a whole store: the masters of one that computes in f32, or on a device
// one that nobody trains. Several parameters of a message come in a copy of it.
Status take_weights(const ComputeContext& context, ParameterStore& store, CollectiveGroup& ranks,
                    std::int64_t together = weights_together);

}  // namespace longhaul
