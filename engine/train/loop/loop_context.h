// What a training loop is asked for, what its parts work with, and what has become of the training. The training's
// thread alone.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>

#include "base/system/clock.h"
#include "contracts/events/event.h"
#include "engine/checkpoint/global/checkpoint_saver.h"
#include "engine/checkpoint/global/checkpoint_store.h"
#include "engine/checkpoint/local/local_copies.h"
#include "engine/core/device/kernel_timer.h"
#include "engine/interop/tensorboard.h"
#include "engine/train/loop/in_process_restart.h"
#include "engine/train/loop/step_requests.h"
#include "engine/train/loop/stop_cause.h"
#include "engine/train/step/objective.h"
#include "engine/train/step/trainer.h"
#include "resiliency/beat/heartbeat_page.h"

namespace longhaul {

// The model after a step that others wait for.
struct MilestoneReached {
  std::int64_t step = 0;
  double loss = 0;       // of that step
  bool steered = false;  // by an order that changes results
};

// What is trained beside the model of a loop and has a state of its own, such as a critic. Both are collective.
class TrainingCompanion {
 public:
  virtual ~TrainingCompanion() = default;
  // As it stands after that step: whole on the disk before the loop's own checkpoint of the step begins.
  virtual Status save(std::int64_t step) = 0;
  // As it stood with this checkpoint of the loop, a folder, which it goes on from.
  virtual Status load(const std::string& checkpoint) = 0;
};

struct TrainingLoopOptions {
  std::int64_t checkpoint_every_steps = 0;  // 0: only at the end
  // Steps 1 to n, n + 1 to 2 n, ... have something in common that no checkpoint holds (answers that all of them learn
  // from): saves, copies and orders to save or to stop wait for the last of them, or for that of the training.
  std::int64_t steps_together = 1;
  TrainingCompanion* companion = nullptr;  // borrowed, may be null; without `restart` and `local_copies`
  CheckpointSaverOptions saver;            // its `compute` is the trainer's
  LocalCopies* local_copies = nullptr;     // borrowed, may be null
  std::int64_t local_every_steps = 0;      // copies on the nodes; 0: never
  bool save_at_end = true;                 // false: no checkpoint and no held-out loss of the last step
  std::int64_t eval_every_steps = 0;       // 0: only at the end
  std::int64_t eval_samples = 0;           // of the held-out source; 0: there is none
  double flops_per_token = 0;              // for the GFLOP/s in the metrics; 0: unknown. Phases have their own
  double peak_flops = 0;                   // per second, of all ranks: for the MFU; 0: unknown
  std::uint64_t seed = 0;
  std::string start_checkpoint;    // a folder; "": the newest of the store
  std::int64_t at_least_step = 0;  // of the newest: the training is known to have saved this one
  // Called on every rank after each such step but the last, before a checkpoint of it is saved: a training that goes on
  // from a checkpoint has called for every milestone up to there. It must leave the training as it is.
  std::int64_t milestone_every_steps = 0;  // 0: never
  std::function<Status(const MilestoneReached&)> on_milestone;
  Trace* trace = nullptr;  // borrowed, may be null
  TraceSettings trace_settings;
  KernelTimer* kernel_timer = nullptr;  // of the device; borrowed, may be null
  std::string trace_folder;             // made where it is needed; a file for every rank
  InProcessRestart* restart = nullptr;  // what it takes; borrowed; null: a fault ends the training. Needs a page
  // Copies in memory for it: every so many steps at most (0: none), and so seldom that they cost this share of the
  // time.
  std::int64_t snapshot_every_steps = 0;
  double snapshot_share_max = 0.01;
  MemoryAccount* snapshot_account = nullptr;      // borrowed, may be null
  TensorBoardWriter* curves = nullptr;            // every number of a metric goes there, too; borrowed, may be null
  const std::atomic<int>* stop_signal = nullptr;  // which one has raised `stop`; borrowed, null: nobody knows
};

struct TrainingOutcome {
  bool stopped = false;          // asked to stop, or out of time, before the last step
  bool saved_at_stop = false;    // in time
  StopCause stop_cause;          // of one that has stopped
  bool shortened = false;        // an order ended it early: what it has is its result
  bool steered = false;          // by an order that changes results
  std::int64_t step = 0;         // done
  std::int64_t resumed_at = -1;  // step of the checkpoint it went on from
  // When it was ready for its first step here, and how many were done then: saves and evaluations count from there on.
  std::int64_t ready_ns = 0, ready_step = 0;
  double loss = 0;          // of the last step
  double heldout_loss = 0;  // mean per token or pair, when there is a held-out source
  ObjectiveSums heldout;
  double tokens = 0, seconds = 0;           // of the steps done here
  double computed_tokens = 0;               // padding included
  double flops = 0;                         // by the formula of ModelShape::train_flops_per_token
  std::int64_t skipped = 0, rollbacks = 0;  // bad steps here
  std::int64_t restarts = 0;                // in-process
  double steps_per_s(std::int64_t at_step, std::int64_t now_ns) const {
    return static_cast<double>(at_step - ready_step) / (static_cast<double>(now_ns - ready_ns) * 1e-9);
  }
  double tokens_per_s() const { return seconds > 0 ? tokens / seconds : 0; }
};

// What the parts of a training loop share.
struct LoopContext {
  // Borrowed; `beat` may be null.
  const Clock& clock;
  Trainer& trainer;
  Objective& objective;
  CheckpointStore& checkpoints;
  EventWriter& events;
  const std::atomic<bool>& stop;
  HeartbeatPage* beat;
  TrainingLoopOptions options;

  TrainingOutcome outcome = {};
  double step_seconds = 0;        // of the last step and those before that belong to it; 0: there was none
  std::string_view section = {};  // entered last

  CollectiveGroup& group() { return trainer.group(); }
  std::int64_t step() { return trainer.progress().step; }  // done
  std::int64_t steps() const { return trainer.options().steps; }
  StepPlace place() { return {step(), steps(), options.steps_together}; }
  double seconds_since(std::int64_t begun_ns) const {
    return static_cast<double>(clock.monotonic_ns() - begun_ns) * 1e-9;
  }
  void enter(const char* name) {
    if (beat) beat->enter(beat->section(name));
    section = name;
  }
};

}  // namespace longhaul
