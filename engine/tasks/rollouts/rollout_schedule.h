// Which answers a step learns from. One rollout draws `minibatches` batches of answers; `epochs` times each of them
// makes a step, one after the other in the order in which they were drawn.
#pragma once

#include <cstdint>

#include "contracts/settings/training/training.h"

namespace longhaul {

struct RolloutSchedule {
  std::int64_t minibatches = 1, epochs = 1, batch = 1;  // batch: answers of a step
  explicit RolloutSchedule(const AlignSettings& settings)
      : minibatches(settings.rollout.minibatches), epochs(settings.rollout.epochs), batch(settings.global_batch_size) {}

  std::int64_t updates() const { return minibatches * epochs; }
  std::int64_t answers() const { return minibatches * batch; }  // of a rollout
  // Steps count from 1.
  bool begins_rollout(std::int64_t step) const { return (step - 1) % updates() == 0; }
  std::int64_t batch_of(std::int64_t step) const { return (step - 1) % updates() % minibatches; }
  // Answers of all rollouts before that of the step.
  std::int64_t answers_before(std::int64_t step) const { return (step - 1) / updates() * answers(); }
};

}  // namespace longhaul
