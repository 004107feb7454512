// A fault that all ranks survive (in_process_restart.h): they meet anew, go back to the newest state that every one of
// them holds, and what they did beside the steps goes on where all of them are as far.
#pragma once

#include "engine/train/loop/memory_copies.h"
#include "engine/train/loop/run_control.h"
#include "engine/train/loop/trained_state.h"
#include "engine/train/loop/training_reporter.h"
#include "engine/train/loop/training_roll_back.h"
#include "engine/train/loop/training_saves.h"

namespace longhaul {

// As one rank has it at a restart; ranks exchange it.
struct RestartNotice {
  HeldStates held;
  std::int64_t epoch = 0, save_key = -1, copy_key = -1;  // what is under way, -1: nothing (TrainingSaves)

  static constexpr std::size_t fields = 5;
  std::array<double, fields> packed() const;
  static RestartNotice from_packed(std::span<const double> packed);
};
struct RestartAgreement {
  std::int64_t version = 0;  // that all hold
  bool save_goes_on = true, copy_goes_on = true;
};
// `mine`: which of them is this rank's. An error where ranks were ordered to different epochs, or hold no common state.
// Pure.
Result<RestartAgreement> agreement_of(std::span<const RestartNotice> ranks, std::size_t mine);

class TrainingRestart {
 public:
  // Borrowed.
  TrainingRestart(LoopContext& context, TrainedState& state, TrainingSaves& saves, MemoryCopies& copies,
                  RunControl& control, TrainingRollBack& roll_back, TrainingReporter& reporter)
      : context_(context),
        state_(state),
        saves_(saves),
        copies_(copies),
        control_(control),
        roll_back_(roll_back),
        reporter_(reporter) {}

  // An error: the process is to be started anew. Collective.
  Status restart(const Error& fault);

 private:
  Result<std::int64_t> await_order(const Error& fault);
  Status go_back(std::int64_t epoch);
  Status restore();

  LoopContext& context_;
  TrainedState& state_;
  TrainingSaves& saves_;
  MemoryCopies& copies_;
  RunControl& control_;
  TrainingRollBack& roll_back_;
  TrainingReporter& reporter_;
};

}  // namespace longhaul
