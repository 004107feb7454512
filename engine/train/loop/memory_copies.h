// The copy of a training in a rank's own memory (memory_snapshot.h), for a restart within the process: when it is
// taken, so seldom that it costs little, and how the training goes back to it.
#pragma once

#include <optional>

#include "engine/checkpoint/state/memory_snapshot.h"
#include "engine/train/loop/loop_context.h"
#include "engine/train/loop/trained_state.h"

namespace longhaul {

class MemoryCopies {
 public:
  // Borrowed.
  MemoryCopies(LoopContext& context, TrainedState& state) : context_(context), state_(state) {}

  // Takes the copy of this version where one is wanted and due; the next is due `interval` versions later. When all
  // ranks have come to the end of the step (run_control.h): see MemorySnapshot.
  void keep(std::int64_t interval);
  // Steps between copies that this rank can bear; 0: it keeps none.
  std::int64_t interval() const;
  // The version of the copy.
  std::optional<std::int64_t> held() const { return snapshot_ ? snapshot_->version() : std::nullopt; }
  // There must be a copy.
  void restore(TrainingState& state) const { snapshot_->restore(context_.trainer.context(), state); }
  // The next is due now, on all ranks, so that all have a copy of the same versions. One of a later version is void.
  void begin_again();

 private:
  bool is_due() const;
  bool make_room();
  void report(std::int64_t interval);

  LoopContext& context_;
  TrainedState& state_;
  std::optional<MemorySnapshot> snapshot_;
  bool refused_ = false;
  std::int64_t next_ = 0;               // the version of which the next copy is due
  std::int64_t reported_interval_ = 0;  // 0: nothing reported yet
  double seconds_ = 0;                  // that a copy takes
};

}  // namespace longhaul
