// Room engine/train/loop
// A training from where it stands to its last step: steps, metrics, checkpoints, orders from outside.
// training_loop.h is the loop; its parts share loop_context.h: trained_state.h (what is saved of it), training_saves.h
// and memory_copies.h (where), run_control.h with step_requests.h (what the ranks are asked for), training_reporter.h,
// training_roll_back.h, training_restart.h. in_process_restart.h is the recovery while all processes live;
// stop_cause.h says why it ends early.
// It knows no task and no artifact, and reaches gradients and optimizer only through the trainer.
//
// A training from where it stands to its last step: steps, metrics, held-out losses, checkpoints, orders from outside.
// The order of a step is do_step() and end_step().
#pragma once

#include "engine/train/loop/memory_copies.h"
#include "engine/train/loop/run_control.h"
#include "engine/train/loop/trained_state.h"
#include "engine/train/loop/training_reporter.h"
#include "engine/train/loop/training_restart.h"
#include "engine/train/loop/training_roll_back.h"
#include "engine/train/loop/training_saves.h"

namespace longhaul {

class TrainingLoop {
 public:
  // All borrowed. `stop` is raised from outside (SIGTERM): the step is finished, a checkpoint saved. `beat` may be
  // null.
  TrainingLoop(const Clock& clock, Trainer& trainer, Objective& objective, CheckpointStore& checkpoints,
               EventWriter& events, const std::atomic<bool>& stop, HeartbeatPage* beat,
               const TrainingLoopOptions& options);
  TrainingLoop(const TrainingLoop&) = delete;
  TrainingLoop& operator=(const TrainingLoop&) = delete;

  // Goes on from the newest of copies and checkpoints (restart_source.h), if there is one. Collective. True if there
  // was one. The event `ready` says which it was ("from", "own_copies", "partner_copies") and what was passed over.
  Result<bool> restore(const ComputeContext& context);
  // heldout may be null. A fault that an in-process restart gets over is not seen outside.
  Result<TrainingOutcome> run(BatchSource* heldout);

 private:
  // Fills the state from what is to be gone on from; its path, "": there is nothing.
  Result<std::string> load(TrainingState& state, int threads);
  void set_hooks();
  Status run_steps(BatchSource* heldout);
  // False: rolled back, what ends a step does not follow.
  Result<bool> do_step();
  // What follows a step on all ranks: milestone, orders, held-out loss, saves, a copy. True: the training ends here.
  // May be done again for the same step, after a restart.
  Result<bool> end_step(BatchSource* heldout);
  // The saves of that; `ends`: the training does here.
  Status save_as_asked(const StepRequests& asked, bool ends, bool fits);
  Status evaluate(BatchSource& heldout);
  Status finish(BatchSource* heldout);

  LoopContext context_;
  TrainedState state_;
  TrainingSaves saves_;
  MemoryCopies copies_;
  RunControl control_;
  TrainingReporter reporter_;
  TrainingRollBack roll_back_;
  TrainingRestart restart_;
  std::int64_t load_begun_ns_ = 0;  // 0: nothing was to be loaded
  LoadedState loaded_;              // by restore()
  bool end_again_ = false;          // after a restart: a step may not have been ended on all ranks
};

}  // namespace longhaul
