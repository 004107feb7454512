#include "engine/tasks/rollout_ranks/drawing_rank.h"

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "engine/model/inference/stored_weights.h"
#include "engine/parallel/mesh/text_exchange.h"

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

Result<RolloutReply> DrawingRank::answer(RolloutWorker& worker, const RolloutOrder& order,
                                         std::unique_ptr<ParameterStore> store, DType dtype,
                                         const TokenizedPrompts& prompts) const {
  const auto draw = static_cast<std::size_t>(ranks_.size() - 1), me = static_cast<std::size_t>(ranks_.rank() - 1);
  std::map<std::size_t, std::vector<std::size_t>> batches;  // places of the answers
  std::vector<RolloutTask> own;
  for (std::size_t i = 0; i < order.tasks.size(); ++i) {
    if (order.batches[i] % draw != me) continue;
    batches[order.batches[i]].push_back(own.size());
    own.push_back(order.tasks[i]);
  }
  RolloutReply drawn;
  drawn.rollouts.resize(own.size());
  while (!batches.empty()) {
    const std::vector<std::size_t> places = batches.extract(batches.begin()).mapped();
    LH_TRY(InferenceWeights weights,
           inference_weights_of(
               run_.compute, *store,
               weights_to_fill(dtype, store->device(), account_of(run_.memory, MemoryCategory::answers))));
    if (batches.empty() && !store->device()) store.reset();  // on a device they are borrowed
    std::vector<RolloutTask> tasks;
    for (const std::size_t place : places) tasks.push_back(own[place]);
    LH_TRY(std::vector<Rollout> answers, worker.answer(std::move(weights), prompts, tasks, {}, drawn.times,
                                                       [this](const char* name) { run_.section(name); }));
    for (std::size_t i = 0; i < places.size(); ++i) drawn.rollouts[places[i]] = std::move(answers[i]);
  }
  return drawn;
}

Status DrawingRank::draw(RolloutWorker& worker, const ModelShape& shape, DType dtype, const TokenizedPrompts& prompts) {
  has_reported_ = true;
  LH_CHECK(reply(RolloutReply()));
  const std::unique_ptr<MemoryAccounts> memory = accounts_beside(run_);
  for (Status failed;;) {
    LH_TRY(const RolloutOrder order, next_order());
    if (order.tasks.empty()) return failed.ok() ? Status(order.training).with_context("the ranks that train") : failed;
    auto store = run_.gpu ? std::make_unique<ParameterStore>(ParameterStore::frozen(shape, dtype, memory.get(), {}))
                          : std::make_unique<ParameterStore>(shape, DType::f32);
    LH_CHECK(take_weights(run_.compute, *store, ranks_));
    const Result<RolloutReply> drawn = answer(worker, order, std::move(store), dtype, prompts);
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
