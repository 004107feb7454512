// Room engine/train/loop
// A training from where it stands to its last step: steps, metrics, checkpoints, orders from outside.
// training_loop.h is the loop; training_restart.cc, training_roll_back.cc, training_read_back.cc are its parts.
// in_process_restart.h is the recovery while all processes live; stop_cause.h says why it ends early.
// It knows no task and no artifact, and reaches gradients and optimizer only through the trainer.
//
// A training from where it stands to its last step: steps, metrics, held-out losses, checkpoints, orders from outside.
#pragma once

#include <atomic>
#include <functional>
#include <string_view>

#include "contracts/events/event.h"
#include "engine/checkpoint/global/checkpoint_saver.h"
#include "engine/checkpoint/global/read_back.h"
#include "engine/checkpoint/local/local_copies.h"
#include "engine/checkpoint/local/restart_source.h"
#include "engine/checkpoint/local/time_line.h"
#include "engine/checkpoint/state/memory_snapshot.h"
#include "engine/core/device/kernel_timer.h"
#include "engine/interop/tensorboard.h"
#include "engine/train/loop/in_process_restart.h"
#include "engine/train/loop/stop_cause.h"
#include "engine/train/step/trainer.h"
#include "resiliency/beat/heartbeat_page.h"

namespace longhaul {

// The model after a step that others wait for.
struct MilestoneReached {
  std::int64_t step = 0;
  double loss = 0;       // of that step
  bool steered = false;  // by an order that changes results
};

struct TrainingLoopOptions {
  std::int64_t checkpoint_every_steps = 0;  // 0: only at the end
  CheckpointSaverOptions saver;             // its `compute` is the trainer's
  LocalCopies* local_copies = nullptr;      // borrowed, may be null
  std::int64_t local_every_steps = 0;       // copies on the nodes; 0: never
  bool save_at_end = true;                  // false: no checkpoint and no held-out loss of the last step
  std::int64_t eval_every_steps = 0;        // 0: only at the end
  std::int64_t eval_samples = 0;            // of the held-out source; 0: there is none
  double flops_per_token = 0;               // for the GFLOP/s in the metrics; 0: unknown. Phases have their own
  double peak_flops = 0;                    // per second, of all ranks: for the MFU; 0: unknown
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
  double loss = 0;               // of the last step
  double heldout_loss = 0;       // mean per token or pair, when there is a held-out source
  ObjectiveSums heldout;
  double tokens = 0, seconds = 0;           // of the steps done here
  double computed_tokens = 0;               // padding included
  double flops = 0;                         // by the formula of ModelShape::train_flops_per_token
  std::int64_t skipped = 0, rollbacks = 0;  // bad steps here
  std::int64_t restarts = 0;                // in-process
  double tokens_per_s() const { return seconds > 0 ? tokens / seconds : 0; }
};

class TrainingLoop {
 public:
  // All borrowed. `stop` is raised from outside (SIGTERM): the step is finished, a checkpoint saved. `beat` may be
  // null.
  TrainingLoop(const Clock& clock, Trainer& trainer, Objective& objective, CheckpointStore& checkpoints,
               EventWriter& events, const std::atomic<bool>& stop, HeartbeatPage* beat,
               const TrainingLoopOptions& options);

  // Goes on from the newest of copies and checkpoints (restart_source.h), if there is one. Collective. True if there
  // was one. The event `ready` says which it was ("from", "own_copies", "partner_copies") and what was passed over.
  Result<bool> restore(const ComputeContext& context);
  // heldout may be null. A fault that an in-process restart gets over is not seen outside.
  Result<TrainingOutcome> run(BatchSource* heldout);

 private:
  TrainingState state();
  void tell_passed_over();
  // Begins a checkpoint of this step unless there is one; one that is still being written is waited for.
  Status save();
  Status advance_save();
  Status finish_save();
  void report_save(const SavedCheckpoint& saved);
  // The newest checkpoint is read back in the background where an older one is to be removed.
  Status advance_read_back();
  Status finish_read_back();
  void report_read_back(const ReadBack& read);
  // Copies on the nodes: what is under way comes to its end, then perhaps the next begins. None of them ends a
  // training.
  Status copy_locally(bool advance, bool due);
  Status evaluate(BatchSource& heldout);
  // From a bad step to the last checkpoint; all data up to and with that step is left out (training_roll_back.cc).
  Status roll_back(const StepReport& bad);
  // All ranks have the state of the target: what was made after it is abandoned, before anything is made anew.
  Status begin_time_line(std::int64_t bad_step);
  void tell_rolled_back(const StepReport& bad, const std::string& path, std::int64_t left_out, std::int64_t begun_ns,
                        std::int64_t load_begun_ns);
  Status take(const Value& extra, bool rolled_back);
  // Moments that are kept in another type than the checkpoint has them.
  void tell_conversion(const TrainingState& loaded);  // of a checkpoint
  void tell_bad(const StepReport& bad);
  void tell_begin(std::int64_t step);
  void tell_phase(std::int64_t step);
  void report_verdicts(const StepReport& step);
  // Everything is loaded, and the next step is the first: where start and load end in the accounting of time.
  void report_ready();
  double flops_per_token(std::int64_t step) const;
  void report(const StepReport& step, double seconds);
  void write_metric(Value fields);
  void section(const char* name);
  void tell_written(std::int64_t bytes);  // of saves; the training's thread waits for a write
  // training_kernels.cc: before the update of a step, when the device has nothing to do; after it, of a step that took
  // so long.
  void take_kernel_times();
  void report_kernels(std::int64_t step);
  // Around the steps that are to be traced.
  void trace_begin(std::int64_t step);
  void trace_end(std::int64_t step);
  Status run_steps(BatchSource* heldout);
  // False: rolled back, what ends a step does not follow.
  Result<bool> do_step();
  // What follows a step on all ranks: milestone, orders, held-out loss, saves, a copy. True: the training ends here.
  // May be done again for the same step, after a restart.
  Result<bool> end_step(BatchSource* heldout);
  // training_restart.cc. An error: the process is to be started anew.
  Status restart(const Error& fault);
  Status go_back(std::int64_t epoch);
  Status still_on_time_line(const TrainingState& state);
  Status settle_saves(bool save_goes_on, bool copy_goes_on);
  void keep_copy(std::int64_t interval);
  // A save may take that much longer than the last, and a training stops so long before it must.
  static constexpr double save_margin = 1.5, end_margin_s = 2;
  // What the ranks have been told from outside, agreed upon after every step: all do the same at the same step.
  struct Asked {
    bool stop = false;          // at once, to go on later (SIGTERM on any rank)
    StopCause cause;            // of that
    bool shorten = false;       // the ordered last step is done
    bool save = false;          // due, or ordered
    bool ordered = false;       // somebody waits for it
    bool advance = false;       // every rank has done its part of the checkpoint under way
    bool advance_copy = false;  // and of the copy on the nodes
    bool advance_read = false;  // and of what is read back
    double left_s = 0;          // until the ranks are ended by force, where it is known: of the rank with least
    double save_s = 0;          // what a save takes, of the rank with most; 0: there was none yet
    bool time_is_known = false;
    bool fits() const { return !time_is_known || save_s * save_margin < left_s; }
    std::int64_t copy_every = 0;  // steps between copies in memory, of the rank that can bear fewest
    std::int64_t orders = 0;      // of the page, acted upon once save is done
  };
  Result<Asked> asked();
  void tell(std::span<double> mine);
  void set_learning_rate(double peak);

  const Clock& clock_;
  Trainer& trainer_;
  Objective& objective_;
  CheckpointStore& checkpoints_;
  EventWriter& events_;
  const std::atomic<bool>& stop_;
  HeartbeatPage* beat_;
  TrainingLoopOptions options_;
  TrainingOutcome outcome_;
  std::string_view section_;
  CheckpointSaver saver_;
  CheckpointReadBack read_back_;
  std::int64_t load_begun_ns_ = 0;  // 0: nothing was to be loaded
  LoadedState loaded_;              // by restore()
  std::int64_t saved_step_ = -1;
  double waited_ = 0;               // before the checkpoint under way could begin, for the one before
  std::int64_t heldout_step_ = -1;  // of the outcome's held-out loss
  std::int64_t checkpoint_orders_seen_ = 0;
  double ordered_lr_ = 0;  // 0: as configured
  const PlannedPhase* told_phase_ = nullptr;
  TimeLine time_line_;
  // Counts the changes of the state, steps and rollbacks, alike on all ranks.
  std::int64_t version_ = 0;
  std::optional<MemorySnapshot> snapshot_;
  bool snapshot_refused_ = false;
  std::int64_t next_copy_ = 0;      // the version of which the next copy is due
  std::int64_t told_interval_ = 0;  // between copies; 0: nothing told yet
  double copy_seconds_ = 0, step_seconds_ = 0, save_seconds_ = 0;
  std::int64_t computed_ns_ = 0;           // of the last step, not told yet
  KernelTable kernels_, kernels_of_step_;  // since they were told; between the last two updates
  std::int64_t checkpoint_orders_obeyed_ = 0;
  bool end_again_ = false;  // after a restart: a step may not have been ended on all ranks
};

}  // namespace longhaul
