#include "autotune/inference/rollout_time.h"

#include <doctest/doctest.h>

#include "tests/support/made_up_serving.h"
#include "tests/support/relative.h"

namespace longhaul {
namespace {

namespace rollout_time_test {

ModelShape drawn_model() {
  ModelShape s;
  s.hidden_size = 128, s.intermediate_size = 256, s.num_hidden_layers = 2, s.num_attention_heads = 4;
  s.num_key_value_heads = 2, s.head_dim = 32, s.vocab_size = 512, s.max_position_embeddings = 256;
  return s;
}

ServingPlace drawn_place() {
  ServingPlace place;
  place.processor = testing::made_up_serving();
  place.cluster.gpu.memory_rate = 1e9;
  return place;
}

RolloutTime time_of(const RolloutWork& work) {
  return rollout_time(drawn_model(), {}, drawn_place(), work);
}

double step_of(const StepWork& work) {
  return serving_step_time(drawn_model(), {}, drawn_place(), work).total();
}

TEST_CASE("answers of a group: the prompt once, its last token for the others, and a step for each token behind") {
  const RolloutWork work{.answers = 8, .group = 8, .prompt_tokens = 100, .answer_tokens = 40, .slots = 8};
  const double drawn = step_of({.prefill = 100, .prefill_before = 50, .ended_prompts = 1}) +
                       step_of({.prefill = 7, .prefill_before = 100, .ended_prompts = 7}) +
                       39 * step_of({.decodes = 8, .context = 120});
  CHECK(time_of(work).generate == testing::relative(drawn));
  CHECK(time_of(work).reference == 0);
}

TEST_CASE("fewer slots than answers draw one handful after the other, and long prompts are read in pieces") {
  RolloutWork work{.answers = 32, .group = 8, .prompt_tokens = 100, .answer_tokens = 40, .slots = 16};
  RolloutWork half = work;
  half.answers = 16;
  CHECK(time_of(work).generate == testing::relative(2 * time_of(half).generate));
  work.answers = 24;
  RolloutWork rest = work;
  rest.answers = 8;
  CHECK(time_of(work).generate == testing::relative(time_of(half).generate + time_of(rest).generate));
  const RolloutWork all{.answers = 16, .group = 1, .prompt_tokens = 128, .answer_tokens = 1, .slots = 16};  // 2048
  CHECK(time_of(all).generate ==
        testing::relative(2 * step_of({.prefill = 1024, .prefill_before = 64, .ended_prompts = 8})));
}

TEST_CASE("the reference reads each group's prompt once and each answer in one piece, with logits of all its tokens") {
  const RolloutWork work{
      .answers = 16, .group = 8, .prompt_tokens = 100, .answer_tokens = 40, .slots = 4, .reference = true};
  const double compared = 2 * step_of({.prefill = 100, .prefill_before = 50}) +
                          16 * step_of({.prefill = 40, .prefill_before = 120, .ended_prompts = 40});
  CHECK(time_of(work).reference == testing::relative(compared));
}

TimedRollout timed_rollout(std::int64_t vocabulary) {
  return {128, 2, 4, 2, 256, vocabulary, 64, 12, 24, 8, 0, 0};
}

TEST_CASE("rollouts that were timed say by how much more than its operations one takes") {
  const ServingSpeed speed = testing::made_up_serving();
  CHECK(rollout_factors(speed, {}, false).drawing == 1);
  // As if rollouts of one model took twice their operations and those of the other eight times: four in the mean.
  std::vector<TimedRollout> timed = {timed_rollout(512), timed_rollout(4096)};
  for (TimedRollout& one : timed) {
    one.generate_seconds = one.reference_seconds = 1;
    const RolloutFactors alone = rollout_factors(speed, {&one, 1}, false);
    one.generate_seconds = (one.vocabulary == 512 ? 2 : 8) / alone.drawing, one.reference_seconds = 3 / alone.scoring;
  }
  const RolloutFactors factors = rollout_factors(speed, timed, false);
  CHECK(factors.drawing == testing::relative(4));
  CHECK(factors.scoring == testing::relative(3));
  CHECK(rollout_factors(speed, timed, true).drawing < factors.drawing);  // operations on more bytes take longer

  ServingPlace place = drawn_place();
  const RolloutWork work{
      .answers = 16, .group = 8, .prompt_tokens = 100, .answer_tokens = 40, .slots = 16, .reference = true};
  const RolloutTime before = rollout_time(drawn_model(), {}, place, work);
  place.drawing = 1.5, place.scoring = 2;
  const RolloutTime after = rollout_time(drawn_model(), {}, place, work);
  CHECK(after.generate == testing::relative(1.5 * before.generate));
  CHECK(after.reference == testing::relative(2 * before.reference));
}

TEST_CASE("of two that begin together each is slowed down until the first is done, and the rest goes on as alone") {
  // After 1.5 s the second is done and the first half done: its other half takes half of 2 s.
  CHECK(seconds_beside({2, 3}, {1, 1.5}) == testing::relative(2.5));
  CHECK(seconds_beside({1, 1.5}, {2, 3}) == testing::relative(1.5));
  // Two threads on one core: as long as one behind the other.
  CHECK(seconds_beside({2, 4}, {1, 2}) == testing::relative(3));
  CHECK(seconds_beside({2, 3}, {1.8, 3}) == testing::relative(3));  // both end together
}

TEST_CASE("work that does not slow down what is beside it takes its own time, and so does work beside nothing") {
  CHECK(seconds_beside({4, 4}, {1, 1}) == 4);
  CHECK(seconds_beside({1, 1}, {4, 4}) == 1);
  CHECK(seconds_beside({2, 3}, {0, 0}) == 2);
  CHECK(seconds_beside({0, 0}, {2, 3}) == 0);
  CHECK(seconds_beside({0, 0}, {0, 0}) == 0);
  // What was slower alone, since others were on the machine at that moment: as beside.
  CHECK(seconds_beside({5, 3}, {1, 1}) == testing::relative(3));
}

TEST_CASE("weights are read in f32 and written as they are drawn with") {
  const auto parameters = static_cast<double>(drawn_model().parameter_count());
  CHECK(take_weights_time(drawn_model(), {.weights = WeightFormat::f32}, drawn_place()) ==
        testing::relative(8 * parameters / 1e9));
  CHECK(take_weights_time(drawn_model(), {.weights = WeightFormat::bf16}, drawn_place()) ==
        testing::relative(6 * parameters / 1e9));
  CHECK(take_weights_time(drawn_model(), {}, {}) == 0);  // nobody knows the memory
}

TEST_CASE("weights for other ranks are copied into messages and out of them, and go down a tree") {
  const double bytes = 4 * static_cast<double>(drawn_model().parameter_count()), copy = 2 * bytes / 1e9;
  CHECK(hand_over_time(drawn_model(), drawn_place(), 1, true) == testing::relative(4 * copy));
  CHECK(hand_over_time(drawn_model(), drawn_place(), 3, true) == testing::relative(6 * copy));  // two hops
  CHECK(hand_over_time(drawn_model(), drawn_place(), 4, true) == testing::relative(8 * copy));
  ServingPlace nodes = drawn_place();
  nodes.cluster.nic_rate = 1e8;
  CHECK(hand_over_time(drawn_model(), nodes, 3, false) == testing::relative(2 * copy + 2 * bytes / 1e8));
  CHECK(hand_over_time(drawn_model(), {}, 1, true) == 0);
}

}  // namespace rollout_time_test

}  // namespace
}  // namespace longhaul
