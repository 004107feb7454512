#include "engine/tasks/rollouts/rollout_schedule.h"

#include <doctest/doctest.h>

#include <vector>

using namespace longhaul;

TEST_CASE("a rollout's batches are learnt from one after the other, as often as there are epochs") {
  AlignSettings settings;
  settings.global_batch_size = 16, settings.rollout.minibatches = 3, settings.rollout.epochs = 2;
  const RolloutSchedule schedule(settings);
  CHECK(schedule.answers() == 48);
  CHECK(schedule.updates() == settings.rollout.updates());
  std::vector<std::int64_t> batches, before, begins;
  for (std::int64_t step = 1; step <= 13; ++step) {
    batches.push_back(schedule.batch_of(step)), before.push_back(schedule.answers_before(step));
    if (schedule.begins_rollout(step)) begins.push_back(step);
  }
  CHECK(batches == std::vector<std::int64_t>{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0});
  CHECK(before == std::vector<std::int64_t>{0, 0, 0, 0, 0, 0, 48, 48, 48, 48, 48, 48, 96});
  CHECK(begins == std::vector<std::int64_t>{1, 7, 13});
}

TEST_CASE("by default every step has answers of its own") {
  AlignSettings settings;
  settings.global_batch_size = 16;
  const RolloutSchedule schedule(settings);
  for (std::int64_t step = 1; step < 4; ++step) {
    CHECK(schedule.begins_rollout(step));
    CHECK(schedule.batch_of(step) == 0);
    CHECK(schedule.answers_before(step) == 16 * (step - 1));
  }
}
