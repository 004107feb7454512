// The state of a training as checkpoints, copies and snapshots hold it: views of what the trainer has, and what the
// loop adds to it. The way back sets the trainer to what such a state says.
#pragma once

#include "engine/checkpoint/local/time_line.h"
#include "engine/train/loop/loop_context.h"

namespace longhaul {

// What a training loop keeps in a checkpoint's extra table, beside what contracts/records/checkpoint_format.h names.
inline constexpr const char* ordered_lr_key = "ordered_lr";        // the peak that an order set
inline constexpr const char* spikes_key = "spikes";                // SpikeGuard::state
inline constexpr const char* low_precision_key = "low_precision";  // LowPrecisionState::state
inline constexpr const char* skipped_key = "skipped_samples";      // left out by rollbacks

class TrainedState {
 public:
  explicit TrainedState(LoopContext& context) : context_(context) {}

  // Borrows the trainer's arrays.
  TrainingState view();
  // Progress and what the loop added, of a state whose arrays are the trainer's by now. `rolled_back`: the learning
  // rate stays, and what was spent on bad steps does.
  Status take(const TrainingState& state, bool rolled_back);
  // The peak; 0: as configured.
  void set_learning_rate(double peak);
  double ordered_learning_rate() const { return ordered_lr_; }
  // The held-out loss of the outcome is that of the step done last.
  void note_evaluation() { heldout_step_ = context_.step(); }

  // Counts the changes of the state, steps and roll-backs, alike on all ranks.
  std::int64_t version() const { return version_; }
  void set_version(std::int64_t version) { version_ = version; }
  const TimeLine& time_line() const { return time_line_; }
  void set_time_line(TimeLine line) { time_line_ = std::move(line); }

 private:
  LoopContext& context_;
  double ordered_lr_ = 0;  // 0: as configured
  std::int64_t heldout_step_ = -1, version_ = 0;
  TimeLine time_line_;
};

}  // namespace longhaul
