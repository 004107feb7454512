#include "engine/tasks/rollout_ranks/rollout_ranks.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "base/text/text.h"
#include "engine/comm/communicator.h"
#include "engine/parallel/mesh/launch_ranks.h"
#include "engine/parallel/mesh/text_exchange.h"
#include "engine/tasks/rollout_ranks/weight_messages.h"
#include "engine/tasks/rollouts/shared_rollouts.h"

namespace longhaul {

namespace {

constexpr std::int64_t farewell_ms = 60'000;  // that ranks which draw may take to come when the training has ended

void take_longest(const RolloutTimes& of, RolloutTimes& times) {
  times.generate = std::max(times.generate, of.generate),
  times.environment = std::max(times.environment, of.environment);
  times.reward = std::max(times.reward, of.reward), times.reference = std::max(times.reference, of.reference);
}

}  // namespace

Status RolloutRanks::check() const {
  const int there = run_.rollout_ranks ? run_.rollout_ranks->size() - 1 : 0;
  Status mine;
  if (run_.is_first() && there != count_)
    mine = make_error(ErrorCode::invalid_input,
                      format("rollout.ranks = {}, and the launch has {} rank{} beside its layout {}", count_, there,
                             there == 1 ? "" : "s", run_.launch.dims.to_string()),
                      format("start {} ranks", run_.group.size() + count_));
  return run_.group.agree(mine);
}

// Of those that draw, by their order.
Result<std::vector<RolloutReply>> RolloutRanks::replies(CollectiveGroup& ranks) const {
  LH_TRY(const std::vector<std::string> texts, gather_text_to_first(ranks, ""));
  std::vector<RolloutReply> all;
  for (std::size_t i = 1; i < texts.size(); ++i) {
    auto one = unpack_reply(texts[i]);
    if (!one.ok())
      return one.error().with_context(format("rollout rank {}", run_.group.size() + static_cast<int>(i) - 1));
    all.push_back(std::move(*one));
  }
  return all;
}

Status RolloutRanks::wait_until_ready() const {
  const auto prepared = replies(*run_.rollout_ranks);
  return prepared.ok() ? Status() : Status(prepared.error());
}

// A batch is what one rank that trains would draw beside its steps, or a part of that where more teams draw than ranks
// train. The ranks of a team take turns at the groups of a batch.
RolloutOrder RolloutRanks::order_of(const std::vector<std::string>& tasks, std::size_t group) const {
  const auto members = static_cast<std::size_t>(run_.mesh.replica().size());
  const auto trains = static_cast<std::size_t>(run_.group.size()), together = static_cast<std::size_t>(together_);
  const std::size_t teams = static_cast<std::size_t>(count_) / together, parts = (teams + trains - 1) / trains;
  RolloutOrder order;
  for (std::size_t replica = 0; replica < tasks.size(); ++replica) {
    const std::vector<RolloutTask> own = unpack_tasks(tasks[replica]);
    for (std::size_t i = 0; i < own.size(); ++i) {
      const auto member = static_cast<std::size_t>(drawn_by(i, group, static_cast<int>(members)));
      const std::size_t turn = i / group / members;  // of that member's groups
      const std::size_t batch = (replica * members + member) * parts + turn % parts;
      order.tasks.push_back(own[i]);
      order.batches.push_back(batch);
      order.ranks.push_back(static_cast<int>(batch % teams * together + turn / parts % together));
    }
  }
  return order;
}

Status RolloutRanks::begin(const ParameterStore& weights, std::span<const RolloutTask> tasks, std::size_t group) {
  LH_ASSERT(!has_begun(), "a rollout is under way");
  LH_TRY(const std::vector<std::string> all, run_.mesh.data().all_gather_text(pack_tasks(tasks)));
  if (!std::exchange(ready_, true)) LH_CHECK(run_.group.agree(run_.is_first() ? wait_until_ready() : Status()));
  Status ordered;
  CollectiveGroup* receivers = nullptr;
  if (run_.is_first()) {
    RolloutOrder order = order_of(all, group);
    const auto sent = broadcast_text(*run_.rollout_ranks, pack_order(order), 0);
    if (sent.ok())
      receivers = run_.rollout_ranks;
    else
      ordered = sent.error();
    whose_ = std::move(order.ranks);
  }
  const std::unique_ptr<MemoryAccounts> memory = accounts_beside(run_);
  const Status given =
      send_weights(run_.compute, run_.mesh, weights, receivers, account_of(memory.get(), MemoryCategory::weights));
  LH_CHECK(run_.group.agree(ordered.ok() ? given : ordered));
  tasks_ = tasks.size();
  return {};
}

// All replicas' answers in the order of the tasks, on the first rank.
Result<RolloutReply> RolloutRanks::collect() const {
  LH_TRY(std::vector<RolloutReply> of_ranks, replies(*run_.rollout_ranks));
  RolloutReply all;
  std::vector<std::size_t> next(of_ranks.size(), 0);
  for (const int one : whose_) {
    const auto rank = static_cast<std::size_t>(one);
    LH_ASSERT(next[rank] < of_ranks[rank].rollouts.size(), format("answer {} of rank {}", next[rank], rank));
    all.rollouts.push_back(std::move(of_ranks[rank].rollouts[next[rank]++]));
  }
  for (const RolloutReply& one : of_ranks) take_longest(one.times, all.times);
  return all;
}

// The others wait for the first rank as long as it waits for those that draw: a rank of these that stands still is
// found by its page.
Result<std::vector<Rollout>> RolloutRanks::finish(RolloutTimes& times) {
  LH_ASSERT(has_begun(), "no rollout is under way");
  std::string text;
  if (run_.is_first()) text = pack_reply(collect());
  CollectiveGroup patient;
  if (Communicator* const ranks = run_.group.communicator()) patient = CollectiveGroup(*ranks, between_parts_ms);
  LH_TRY(text, broadcast_text(patient, text, 0));
  const std::size_t count = std::exchange(tasks_, 0);
  LH_TRY(RolloutReply all, unpack_reply(text));
  times = all.times;
  const auto first =
      all.rollouts.begin() + static_cast<std::ptrdiff_t>(count * static_cast<std::size_t>(run_.mesh.data().rank()));
  const auto last = first + static_cast<std::ptrdiff_t>(count);
  return std::vector<Rollout>(std::move_iterator(first), std::move_iterator(last));
}

// Best effort: ranks that do not come any more are ended with this one.
Status RolloutRanks::end(Status training) {
  if (!run_.rollout_ranks || !run_.rollout_ranks->communicator()) return training;
  CollectiveGroup ranks(*run_.rollout_ranks->communicator(), farewell_ms);
  const bool owes_a_reply = !std::exchange(ready_, true) || std::exchange(tasks_, 0) > 0;
  if (owes_a_reply && !gather_text_to_first(ranks, "").ok()) return training;
  [[maybe_unused]] const auto sent = broadcast_text(ranks, pack_order({{}, {}, {}, training}), 0);
  return training;
}

}  // namespace longhaul
