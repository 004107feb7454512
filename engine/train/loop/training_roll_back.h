// A step whose loss is no number, or a spike, with on_spike.action = "rollback" (spike_guard.h): the training goes back
// to the last checkpoint and leaves out all data up to and with that step.
#pragma once

#include "engine/train/loop/memory_copies.h"
#include "engine/train/loop/trained_state.h"
#include "engine/train/loop/training_reporter.h"
#include "engine/train/loop/training_saves.h"

namespace longhaul {

class TrainingRollBack {
 public:
  // Borrowed.
  TrainingRollBack(LoopContext& context, TrainedState& state, TrainingSaves& saves, MemoryCopies& copies,
                   TrainingReporter& reporter)
      : context_(context), state_(state), saves_(saves), copies_(copies), reporter_(reporter) {}

  // Collective.
  Status roll_back(const StepReport& bad);
  // Of a state in memory: an error where a roll-back that some ranks have not come to the end of is written down.
  // Collective.
  Status check_time_line(const TrainingState& state);

 private:
  // All ranks have the state of the target: what was made after it is abandoned, before anything is made anew.
  Status begin_time_line(std::int64_t bad_step);
  void report(const StepReport& bad, const std::string& path, std::int64_t left_out, std::int64_t begun_ns,
              std::int64_t load_begun_ns);

  LoopContext& context_;
  TrainedState& state_;
  TrainingSaves& saves_;
  MemoryCopies& copies_;
  TrainingReporter& reporter_;
};

}  // namespace longhaul
