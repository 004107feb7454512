// Judges every step by its loss and its gradient's norm before the update is made.
//
// A step is bad when one of the two is no number, or a spike: with mean m and deviation d (the root of the mean squared
// distance from m) of the last `window` steps whose update was made, x is a spike when
//
//   x > m + sigma * d      sigma > 0; the rule of OLMo-core's SkipStepOptimizer, which has sigma 6 and 128 steps
//   x > ratio * m          ratio > 0
//
// and at least half a window was seen. Both numbers are the sums over all ranks, in one order, so all ranks judge
// alike; what the judgement rests on is in every checkpoint, so a training that goes on judges as one that never
// stopped.
//
// What follows is SpikeSettings.action. `skip` leaves out the update; the step counts and its data is used up (Adam's
// own count of steps stays). `rollback` goes back to the last checkpoint and leaves out all data from there to the bad
// step, as PaLM did by hand (2204.02311, section 5.1). More than `budget` of them within `budget_steps` steps is a
// training that does not work: it stops, as it does with `stop` at the first.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "base/value/value.h"
#include "contracts/settings/training/training.h"

namespace longhaul {

class SpikeGuard {
 public:
  explicit SpikeGuard(const SpikeSettings& settings) : settings_(settings) {}

  // What is wrong with a step of this loss and norm; "": nothing.
  std::string problem(double loss, double grad_norm) const;
  // Its update was made.
  void accept(double loss, double grad_norm);
  // A step was skipped, or rolled back from. False: that is one too many.
  bool spend(std::int64_t step);
  const SpikeSettings& settings() const { return settings_; }

  // For checkpoints. restore: of a state() that may come from a file; what cannot be is ErrorCode::corrupt.
  Value state() const;
  Status restore(const Value& state);
  // After a rollback: the window is that of the checkpoint, what was spent stays spent.
  Status restore_window(const Value& state);

 private:
  std::string spike(const char* what, double x, const std::deque<double>& window) const;

  SpikeSettings settings_;
  std::deque<double> losses_, norms_;  // of the window, oldest first
  std::vector<std::int64_t> spent_;    // steps, ascending
};

}  // namespace longhaul
