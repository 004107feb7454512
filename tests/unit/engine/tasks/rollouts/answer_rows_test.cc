// Conversations as rows of a batch: what the model wrote is learnt, what an environment wrote between is read alone.
#include "engine/tasks/rollouts/answer_rows.h"

#include <doctest/doctest.h>

#include "engine/tasks/rollouts/shared_rollouts.h"

namespace longhaul {
namespace {

namespace answer_rows_test {

// A prompt of two tokens, two of the model, three of the environment, one of the model.
Rollout two_turns() {
  Rollout rollout;
  rollout.tokens.ids = {10, 11, 20, 21, 30, 31, 32, 22};
  rollout.tokens.loss_mask = {0, 0, 1, 1, 0, 0, 0, 1};
  rollout.drawn = {-1, -2, -3}, rollout.reference = {-1.5, -2.5, -3.5}, rollout.advantages = {0.1, 0.2, 0.3};
  rollout.values = {1, 2, 3}, rollout.returns = {4, 5, 6};
  rollout.reward.value = 1, rollout.turns = 2;
  return rollout;
}

// One turn alone.
Rollout one_turn() {
  Rollout rollout;
  rollout.tokens.ids = {10, 20, 21}, rollout.tokens.loss_mask = {0, 1, 1};
  rollout.drawn = {-4, -5}, rollout.reference = {-4.5, -5.5}, rollout.advantages = {0.4, 0.5};
  rollout.values = {7, 8}, rollout.returns = {9, 10};
  return rollout;
}

BatchStorage rows_of(const Rollout& first, const Rollout& second) {
  BatchStorage batch;
  AnswerRows rows(batch);
  rows.add(first, 0, 1), rows.add(second, 0, 1);
  rows.put(64);
  return batch;
}

TEST_CASE("tokens of the environment have no target, and each number stands where its token is predicted") {
  const Rollout first = two_turns(), second = one_turn();
  CHECK(first.answer_begin() == 2);
  const BatchStorage batch = rows_of(first, second);
  const auto length = static_cast<std::size_t>(batch.length);
  const std::vector<std::size_t> places = {1, 2, 6, length, length + 1};
  std::vector<std::size_t> targets;
  for (std::size_t t = 0; t < batch.targets.size(); ++t)
    if (batch.targets[t] >= 0) targets.push_back(t);
  CHECK(targets == places);
  CHECK(AnswerRows::places_of(first, 0, batch) == std::vector<std::size_t>{1, 2, 6});
  const auto numbers = [&](const std::vector<float>& of) {
    std::vector<float> found;
    for (const std::size_t place : places) found.push_back(of.at(place));
    return found;
  };
  CHECK(batch.targets[6] == 22);
  CHECK(numbers(batch.drawn) == std::vector<float>{-1, -2, -3, -4, -5});
  CHECK(numbers(batch.reference) == std::vector<float>{-1.5F, -2.5F, -3.5F, -4.5F, -5.5F});
  CHECK(numbers(batch.advantages) == std::vector<float>{0.1F, 0.2F, 0.3F, 0.4F, 0.5F});
  CHECK(numbers(batch.values) == std::vector<float>{1, 2, 3, 7, 8});
  CHECK(numbers(batch.returns) == std::vector<float>{4, 5, 6, 9, 10});
}

TEST_CASE("what stands before a prompt moves an answer's numbers, and has no target itself") {
  const Rollout first = two_turns(), second = one_turn();
  const std::vector<std::int32_t> before = {320, 321, 322};
  BatchStorage batch;
  AnswerRows rows(batch, before);
  rows.add(first, 0, 1), rows.add(second, 0, 1);
  rows.put(64);
  const auto length = static_cast<std::size_t>(batch.length);
  for (const std::size_t begin : {std::size_t{0}, length})
    for (std::size_t i = 0; i < before.size(); ++i) {
      CHECK(batch.ids[begin + i] == before[i]);
      CHECK(batch.targets[begin + i] == no_target);
      CHECK(batch.weights[begin + i] == 0);
    }
  CHECK(batch.ids[3] == 10);
  CHECK(batch.targets[9] == 22);
  CHECK(batch.drawn[9] == -3);
  CHECK(batch.drawn[length + 4] == -5);
  CHECK(AnswerRows::places_of(first, 0, batch, before.size()) == std::vector<std::size_t>{4, 5, 9});
}

TEST_CASE("conversations are the same behind packing, with the mask of what the environment wrote") {
  Rollout failed = two_turns();
  failed.values.clear(), failed.advantages.clear(), failed.returns.clear();
  failed.environment_failed = true, failed.reward = {std::nullopt, "the environment fails"};
  const std::vector<Rollout> back = unpack_rollouts(pack_rollouts({failed, one_turn()}));
  REQUIRE(back.size() == 2);
  CHECK(back[0].tokens.loss_mask == failed.tokens.loss_mask);
  CHECK(back[0].tokens.ids == failed.tokens.ids);
  CHECK(back[0].turns == 2);
  CHECK(back[0].environment_failed);
  CHECK(back[0].reward.problem == "the environment fails");
  CHECK(back[1].turns == 1);
  CHECK_FALSE(back[1].environment_failed);
}

}  // namespace answer_rows_test

}  // namespace
}  // namespace longhaul
