#include "engine/train/loop/training_loop.h"

#include <utility>

#include "base/error/crash_context.h"
#include "base/process/fault_point.h"
#include "base/text/text.h"

namespace longhaul {

TrainingLoop::TrainingLoop(const Clock& clock, Trainer& trainer, Objective& objective, CheckpointStore& checkpoints,
                           EventWriter& events, const std::atomic<bool>& stop, HeartbeatPage* beat,
                           const TrainingLoopOptions& options)
    : context_{clock, trainer, objective, checkpoints, events, stop, beat, options},
      state_(context_),
      saves_(context_, state_),
      copies_(context_, state_),
      control_(context_, state_, saves_, copies_),
      reporter_(context_),
      roll_back_(context_, state_, saves_, copies_, reporter_),
      restart_(context_, state_, saves_, copies_, control_, roll_back_, reporter_) {}

Result<bool> TrainingLoop::restore(const ComputeContext& context) {
  context_.enter("load");
  load_begun_ns_ = context_.clock.monotonic_ns();
  LH_TRY(TimeLine line, read_time_line(context_.group(), context_.checkpoints.folder(), context_.checkpoints.retry()));
  state_.set_time_line(std::move(line));
  TrainingState state = state_.view();
  LH_TRY(const std::string path, load(state, context.threads()));
  if (path.empty()) {
    LH_CHECK(reporter_.resumed_after(0));  // a launch before may have left a file
    return false;
  }
  const std::uint64_t seed = context_.options.seed;
  if (state.seed != seed)
    return make_error(ErrorCode::invalid_input,
                      format("{} was trained with seed {}, this stage has seed {}", path, state.seed, seed),
                      "the data order would change; use the same seed");
  LH_CHECK(state_.take(state, false).with_context(path));
  if (TrainingCompanion* companion = context_.options.companion) LH_CHECK(companion->load(path));
  context_.trainer.store().refresh_compute_copy(context);
  context_.outcome.resumed_at = state.progress.step;
  saves_.set_saved_step(state.progress.step);
  context_.events.message("info", format("goes on from step {} ({})", state.progress.step, path));
  reporter_.conversion(state);
  LH_CHECK(reporter_.resumed_after(state.progress.step));
  return true;
}

Result<std::string> TrainingLoop::load(TrainingState& state, int threads) {
  const TrainingLoopOptions& options = context_.options;
  CheckpointStore& checkpoints = context_.checkpoints;
  if (!options.start_checkpoint.empty()) {
    LH_CHECK(checkpoints.load_together(context_.group(), options.start_checkpoint, state, threads));
    loaded_.from = "checkpoint";
    return options.start_checkpoint;
  }
  LH_TRY(loaded_,
         load_newest_state(context_.group(), checkpoints, options.local_copies, state, threads, state_.time_line()));
  reporter_.passed_over(loaded_);
  const std::int64_t step = loaded_.from.empty() ? 0 : state.progress.step;
  LH_CHECK(may_begin_at(step, options.at_least_step, loaded_, state_.time_line()));
  return loaded_.from.empty() ? std::string() : loaded_.path;
}

void TrainingLoop::set_hooks() {
  TrainerHooks& hooks = context_.trainer.hooks;
  hooks.on_micro_batch = [this](std::int64_t, int) { context_.enter("micro_batch"); };
  hooks.before_change = [this] {
    reporter_.before_update();
    saves_.finish_copy();
  };
  hooks.fails_alone = [this](const Error& fault) {
    return context_.options.restart && context_.beat && context_.beat->restart_wait_ms() > 0 && may_pass(fault);
  };
}

Result<TrainingOutcome> TrainingLoop::run(BatchSource* heldout) {
  const CrashContext here([this] {
    return format("rank {} of {}, after step {}", context_.group().rank(), context_.group().size(), context_.step());
  });
  set_hooks();
  saves_.reserve();
  copies_.keep(context_.options.snapshot_every_steps);
  if (context_.step() < context_.steps()) reporter_.ready(loaded_, load_begun_ns_);
  while (true) {
    const Status done = run_steps(heldout);
    if (done.ok()) return context_.outcome;
    const Status restarted = restart_.restart(done.error());
    if (restarted.ok()) {
      end_again_ = context_.step() > 0;
      continue;
    }
    // Alone, the checkpoint under way is still worth its wait; of several ranks the others may not have failed.
    if (context_.group().size() == 1) (void)saves_.finish_save().ok();
    return restarted.error();
  }
}

Status TrainingLoop::run_steps(BatchSource* heldout) {
  bool ends = false;
  if (std::exchange(end_again_, false)) {
    LH_TRY(ends, end_step(heldout));
  }
  while (!ends && context_.step() < context_.steps()) {
    LH_TRY(const bool stepped, do_step());
    if (stepped) {
      LH_TRY(ends, end_step(heldout));
    }
  }
  return finish(heldout);
}

Result<bool> TrainingLoop::do_step() {
  Trainer& trainer = context_.trainer;
  // Already here: one that hangs on its way into a step hangs in a section that was timed.
  context_.enter("micro_batch");
  if (auto fault = fault_here(FaultPoint::engine_step_begin)) return *fault;
  reporter_.begin_step(context_.step() + 1);
  if (const auto skipped = state_.time_line().skipped_from(context_.step())) trainer.skipped_samples() = *skipped;
  const std::int64_t begun = context_.clock.monotonic_ns();
  const Result<StepReport> done = trainer.step();
  reporter_.end_trace();
  LH_CHECK(done);
  const StepReport& step = *done;
  const double seconds = context_.seconds_since(begun);
  const bool first = (step.step - 1) % context_.options.steps_together == 0;  // of those that belong together
  context_.step_seconds = first ? seconds : context_.step_seconds + seconds;
  reporter_.count_step(step, seconds);
  if (step.end != StepEnd::done) reporter_.bad_step(step);
  if (step.end == StepEnd::roll_back) {
    LH_CHECK(roll_back_.roll_back(step).with_context(format("step {}", step.step)));
    return false;
  }
  state_.set_version(state_.version() + 1);
  if (step.end == StepEnd::done) {
    context_.outcome.loss = step.loss;
    reporter_.step_done(step, seconds);
  }
  reporter_.kernels(step.step);
  if (auto fault = fault_here(FaultPoint::engine_step_done)) return *fault;
  return true;
}

Result<bool> TrainingLoop::end_step(BatchSource* heldout) {
  const TrainingLoopOptions& options = context_.options;
  TrainingOutcome& outcome = context_.outcome;
  const std::int64_t steps = context_.steps(), step = context_.step();
  const bool early = step < steps;
  const auto is_due = [step, early](std::int64_t every) { return early && every > 0 && step % every == 0; };
  if (is_due(options.milestone_every_steps))
    LH_CHECK(options.on_milestone({step, outcome.loss, state_.ordered_learning_rate() > 0}));
  LH_TRY(StepRequests asked, control_.ask());
  if (asked.advance_read) LH_CHECK(saves_.advance_read_back());
  if (asked.advance_save) LH_CHECK(saves_.advance_save());
  if (asked.stop && early && saves_.busy()) {  // whether a last one fits is known once the one under way is whole
    LH_CHECK(saves_.finish_save());
    LH_TRY(asked, control_.ask());
  }
  const bool ends = (asked.stop || asked.shorten) && early, fits = !ends || asked.shorten || asked.fits();
  if (heldout && !ends && is_due(options.eval_every_steps))
    LH_CHECK(evaluate(*heldout));  // before a save: the checkpoint knows its held-out loss
  LH_CHECK(save_as_asked(asked, ends, fits));
  control_.obeyed();
  if (asked.shorten && early) {
    outcome.shortened = true;
    context_.events.message("info", format("ends after step {} of {}, as ordered", step, steps));
  } else if (asked.stop && early) {
    outcome.stopped = true, outcome.saved_at_stop = fits && options.save_at_end;
    outcome.stop_cause = std::move(asked.cause);
  } else if (early && context_.place().may_end()) {
    copies_.keep(asked.copy_every);
  }
  return ends;
}

Status TrainingLoop::save_as_asked(const StepRequests& asked, bool ends, bool fits) {
  const TrainingLoopOptions& options = context_.options;
  const std::int64_t step = context_.step();
  if ((asked.save || (ends && options.save_at_end)) && fits) LH_CHECK(saves_.save());
  if (!fits)
    context_.events.message("warn", format("no checkpoint of step {}: {:.1f} s are left, the last took {:.1f} s", step,
                                           asked.left_s, asked.save_s));
  const bool copy = context_.place().is_due(options.local_every_steps) && step < context_.steps();
  LH_CHECK(saves_.copy_on_nodes(asked.advance_copy, copy && saves_.saved_step() != step));
  if (asked.ordered || ends) LH_CHECK(saves_.finish_save());  // whoever gave the order reads of a finished checkpoint
  if (asked.ordered) saves_.pin();
  return {};
}

Status TrainingLoop::evaluate(BatchSource& heldout) {
  context_.enter("evaluate");
  LH_TRY(const ObjectiveSums sums, context_.trainer.evaluate(heldout, context_.options.eval_samples));
  if (!(sums.count > 0)) return make_error(ErrorCode::invalid_input, "the held-out data has nothing to predict");
  context_.outcome.heldout = sums;
  context_.outcome.heldout_loss = sums.loss / sums.count;
  state_.note_evaluation();
  reporter_.evaluation(sums);
  return {};
}

Status TrainingLoop::finish(BatchSource* heldout) {
  TrainingOutcome& outcome = context_.outcome;
  outcome.step = context_.step();
  outcome.steered = outcome.shortened || state_.ordered_learning_rate() > 0;
  if (outcome.stopped) return {};
  if (context_.options.save_at_end) {
    LH_CHECK(saves_.save());
    if (heldout) LH_CHECK(evaluate(*heldout));  // while it is written
  }
  LH_CHECK(saves_.finish_save());
  return saves_.finish_read_back();
}

}  // namespace longhaul
