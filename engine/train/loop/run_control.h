// What the ranks do after a step, asked of all of them at once: signals, orders on the heartbeat page, the time that is
// left, saves that are due (step_requests.h).
#pragma once

#include "engine/train/loop/loop_context.h"
#include "engine/train/loop/memory_copies.h"
#include "engine/train/loop/step_requests.h"
#include "engine/train/loop/trained_state.h"
#include "engine/train/loop/training_saves.h"

namespace longhaul {

class RunControl {
 public:
  // Borrowed.
  RunControl(LoopContext& context, TrainedState& state, TrainingSaves& saves, MemoryCopies& copies)
      : context_(context), state_(state), saves_(saves), copies_(copies) {}

  // Collective, alike on all ranks. An ordered learning rate is set.
  Result<StepRequests> ask();
  // What was asked for is done.
  void obeyed();
  // Orders that were seen and not obeyed count again: the step they belong to was undone.
  void see_again() { checkpoints_seen_ = checkpoints_obeyed_; }

 private:
  RankNotice notice();

  LoopContext& context_;
  TrainedState& state_;
  TrainingSaves& saves_;
  MemoryCopies& copies_;
  std::int64_t orders_ = 0;  // of the page, when ranks were asked last
  std::int64_t checkpoints_seen_ = 0, checkpoints_obeyed_ = 0;
};

}  // namespace longhaul
