#include "engine/train/training_loop.h"

#include "base/fault_point.h"
#include "base/text.h"

namespace longhaul {

TrainingLoop::TrainingLoop(const Clock& clock, Trainer& trainer, Objective& objective, CheckpointStore& checkpoints,
                           EventWriter& events, const std::atomic<bool>& stop, HeartbeatPage* beat,
                           const TrainingLoopOptions& options)
    : clock_(clock),
      trainer_(trainer),
      objective_(objective),
      checkpoints_(checkpoints),
      events_(events),
      stop_(stop),
      beat_(beat),
      options_(options) {
  if (beat_) orders_seen_ = beat_->checkpoint_orders();
}

void TrainingLoop::section(const char* name) {
  if (beat_) beat_->enter(beat_->section(name));
}

TrainingState TrainingLoop::state() {
  TrainingState state;
  state.layout = &trainer_.store().layout();
  state.shape = trainer_.store().shape();
  state.dims = options_.dims;
  state.masters = trainer_.store().masters();
  state.exp_avg = trainer_.optimizer().exp_avg();
  state.exp_avg_sq = trainer_.optimizer().exp_avg_sq();
  state.progress = trainer_.progress();
  state.seed = options_.seed;
  state.extra = Value::make_table();
  return state;
}

Result<bool> TrainingLoop::restore(const ComputeContext& context) {
  section("load");
  TrainingState state = this->state();
  std::string path;
  if (!options_.start_checkpoint.empty()) {
    LH_CHECK(trainer_.group().agree(CheckpointStore::load(options_.start_checkpoint, state)));
    path = options_.start_checkpoint;
  } else {
    LH_TRY(const std::optional<LoadedCheckpoint> loaded, checkpoints_.load_newest(trainer_.group(), state));
    if (!loaded) return false;
    for (const std::string& why : loaded->passed_over) events_.message("warn", "checkpoint passed over: " + why);
    path = loaded->path;
  }
  if (state.seed != options_.seed)
    return make_error(ErrorCode::invalid_input,
                      format("{} was trained with seed {}, this stage has seed {}", path, state.seed, options_.seed),
                      "the data order would change; use the same seed");
  trainer_.progress() = state.progress;
  trainer_.store().refresh_compute_copy(context);
  saved_step_ = outcome_.resumed_at = state.progress.step;
  events_.message("info", format("goes on from step {} ({})", state.progress.step, path));
  return true;
}

Status TrainingLoop::save() {
  if (saved_step_ == trainer_.progress().step) return {};
  section("checkpoint");
  LH_TRY(const SavedCheckpoint saved, checkpoints_.save(trainer_.group(), state()));
  saved_step_ = trainer_.progress().step;
  Value fields = Value::make_table();
  fields.set("step", saved_step_);
  fields.set("path", saved.path);
  fields.set("bytes", saved.bytes);
  fields.set("stall_s", saved.seconds);
  events_.write("checkpoint", std::move(fields));
  return {};
}

Status TrainingLoop::evaluate(BatchSource& heldout) {
  section("evaluate");
  LH_TRY(const ObjectiveSums sums, trainer_.evaluate(heldout, options_.eval_samples));
  if (!(sums.count > 0)) return make_error(ErrorCode::invalid_input, "the held-out data has nothing to predict");
  outcome_.heldout = sums;
  outcome_.heldout_loss = sums.loss / sums.count;
  Value fields = Value::make_table();
  fields.set("step", trainer_.progress().step);
  fields.set("heldout_loss", outcome_.heldout_loss);
  const std::vector<std::string> extra = objective_.extra_names();
  for (std::size_t i = 0; i < extra.size(); ++i) fields.set("heldout_" + extra[i], sums.extra[i] / sums.count);
  events_.write("metric", std::move(fields));
  return {};
}

void TrainingLoop::report(const StepReport& step, double seconds) {
  Value fields = Value::make_table();
  fields.set("step", step.step);
  fields.set("loss", step.loss);
  fields.set("lr", step.lr);
  fields.set("grad_norm", step.grad_norm);
  fields.set("tokens_per_s", step.tokens / seconds);
  if (options_.flops_per_token > 0) fields.set("gflops", options_.flops_per_token * step.tokens / seconds * 1e-9);
  const std::vector<std::string> extra = objective_.extra_names();
  for (std::size_t i = 0; i < extra.size(); ++i) fields.set(extra[i], step.extra[i]);
  events_.write("metric", std::move(fields));
  // The rate is that of this launch: steps done by an earlier one took no time here.
  const double done_here = static_cast<double>(step.step - std::max<std::int64_t>(0, outcome_.resumed_at));
  events_.progress(static_cast<double>(step.step), static_cast<double>(trainer_.options().steps), "steps",
                   done_here / outcome_.seconds);
}

Result<bool> TrainingLoop::asked(bool& save_now) {
  const std::int64_t step = trainer_.progress().step;
  double mine[2] = {stop_.load(std::memory_order_relaxed) ? 1.0 : 0.0, 0.0};
  if (beat_) {
    if (beat_->stop_after_step() >= 0 && step >= beat_->stop_after_step()) mine[0] = 1.0;
    const std::int64_t orders = beat_->checkpoint_orders();
    if (orders != orders_seen_) mine[1] = 1.0;
    orders_seen_ = orders;
  }
  std::vector<double> all(static_cast<std::size_t>(trainer_.group().size()) * 2);
  LH_CHECK(trainer_.group().all_gather(mine, all));
  bool stop = false;
  save_now = false;
  for (std::size_t i = 0; i < all.size(); i += 2) stop |= all[i] > 0, save_now |= all[i + 1] > 0;
  std::int64_t every = options_.checkpoint_every_steps;
  // The worker's interval is one order for the whole launch; the first rank's page counts.
  if (beat_ && beat_->checkpoint_interval() > 0 && trainer_.group().size() == 1) every = beat_->checkpoint_interval();
  save_now |= every > 0 && step % every == 0;
  return stop;
}

Result<TrainingOutcome> TrainingLoop::run(BatchSource* heldout) {
  const std::int64_t steps = trainer_.options().steps;
  trainer_.on_micro_batch = [this](std::int64_t, int) { section("micro_batch"); };
  while (trainer_.progress().step < steps) {
    if (auto fault = fault_here(FaultPoint::engine_step_begin)) return *fault;
    if (beat_) beat_->step(trainer_.progress().step + 1);
    const std::int64_t begun = clock_.monotonic_ns();
    LH_TRY(const StepReport step, trainer_.step());
    const double seconds = static_cast<double>(clock_.monotonic_ns() - begun) * 1e-9;
    outcome_.loss = step.loss;
    outcome_.tokens += step.tokens, outcome_.seconds += seconds;
    report(step, seconds);
    bool save_now = false;
    LH_TRY(const bool stop, asked(save_now));
    if (save_now || (stop && step.step < steps)) LH_CHECK(save());
    if (stop && step.step < steps) {
      outcome_.stopped = true;
      break;
    }
    if (heldout && options_.eval_every_steps > 0 && step.step % options_.eval_every_steps == 0 && step.step < steps)
      LH_CHECK(evaluate(*heldout));
  }
  outcome_.step = trainer_.progress().step;
  if (outcome_.stopped) return outcome_;
  LH_CHECK(save());
  if (heldout) LH_CHECK(evaluate(*heldout));
  return outcome_;
}

}  // namespace longhaul
