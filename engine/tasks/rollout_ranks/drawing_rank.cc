#include "engine/tasks/rollout_ranks/drawing_rank.h"

#include <utility>

#include "engine/model/inference/stored_weights.h"
#include "engine/parallel/mesh/text_exchange.h"
#include "engine/tasks/rollout_ranks/weight_messages.h"

namespace longhaul {

Result<RolloutOrder> DrawingRank::next_order() {
  run_.section("rollout");
  LH_TRY(const std::string text, broadcast_text(ranks_, "", 0));
  return unpack_order(text);
}

Status DrawingRank::reply(const Result<RolloutReply>& mine) {
  const auto sent = gather_text_to_first(ranks_, pack_reply(mine));
  return sent.ok() ? Status() : Status(sent.error());
}

std::map<std::size_t, DrawingRank::Batch> DrawingRank::batches_of(const RolloutOrder& order, const DrawingTeam& team) {
  std::map<std::size_t, Batch> batches;
  std::size_t own = 0;
  for (std::size_t i = 0; i < order.tasks.size(); ++i) {
    if (!team.has(order.ranks[i])) continue;
    Batch& batch = batches[order.batches[i]];
    batch.tasks.push_back(order.tasks[i]), batch.whose.push_back(order.ranks[i]);
    if (order.ranks[i] == team.rank()) batch.places.push_back(own++);
  }
  return batches;
}

Result<RolloutReply> DrawingRank::answer(RolloutWorker& worker, std::map<std::size_t, Batch> batches,
                                         std::unique_ptr<ParameterStore> store, DType dtype,
                                         const TokenizedPrompts& prompts) const {
  RolloutReply drawn;
  for (const auto& [number, batch] : batches) drawn.rollouts.resize(drawn.rollouts.size() + batch.places.size());
  while (!batches.empty()) {
    const Batch batch = batches.extract(batches.begin()).mapped();
    LH_TRY(InferenceWeights weights,
           inference_weights_of(
               run_.compute, *store,
               weights_to_fill(dtype, store->device(), account_of(run_.memory, MemoryCategory::answers))));
    if (batches.empty() && !store->device()) store.reset();  // on a device they are borrowed
    LH_TRY(std::vector<Rollout> answers, worker.answer(std::move(weights), prompts, batch.tasks, batch.whose,
                                                       drawn.times, [this](const char* name) { run_.section(name); }));
    for (std::size_t i = 0; i < answers.size(); ++i) drawn.rollouts[batch.places[i]] = std::move(answers[i]);
  }
  return drawn;
}

Status DrawingRank::draw(RolloutWorker& worker, const DrawingTeam& team, const ModelShape& shape, DType dtype,
                         const TokenizedPrompts& prompts) {
  has_reported_ = true;
  LH_CHECK(reply(RolloutReply()));
  const std::unique_ptr<MemoryAccounts> memory = accounts_beside(run_);
  for (Status failed;;) {
    LH_TRY(const RolloutOrder order, next_order());
    if (order.tasks.empty()) return failed.ok() ? Status(order.training).with_context("the ranks that train") : failed;
    auto store =
        run_.gpu ? std::make_unique<ParameterStore>(ParameterStore::frozen(shape, dtype, memory.get(), team.place()))
                 : std::make_unique<ParameterStore>(shape, DType::f32, nullptr, team.place());
    LH_CHECK(take_weights(run_.compute, *store, ranks_, account_of(memory.get(), MemoryCategory::weights)));
    const Result<RolloutReply> drawn = answer(worker, batches_of(order, team), std::move(store), dtype, prompts);
    if (!drawn.ok()) failed = drawn.error();
    LH_CHECK(reply(drawn));
  }
}

Status DrawingRank::end(Status mine) {
  if (std::exchange(has_reported_, true) || mine.ok()) return mine;
  if (reply(mine.error()).ok()) (void)next_order();
  return mine;
}

}  // namespace longhaul
