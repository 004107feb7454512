#include "engine/train/loop/training_loop.h"

#include <cmath>

#include "base/error/crash_context.h"
#include "base/files/files.h"
#include "base/process/fault_point.h"
#include "base/text/text.h"
#include "engine/train/loop/training_extra.h"

namespace longhaul {
namespace {
CheckpointSaverOptions saver_options(const TrainingLoopOptions& options, const Trainer& trainer,
                                     std::function<void(std::int64_t)> on_writing) {
  CheckpointSaverOptions saver = options.saver;
  saver.compute = &trainer.context();
  saver.on_writing = std::move(on_writing);
  return saver;
}

constexpr std::size_t passed_over_told = 8;  // of thousands of nodes

}  // namespace

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
      options_(options),
      saver_(clock, checkpoints, saver_options(options, trainer, [this](std::int64_t bytes) { tell_written(bytes); })),
      read_back_(clock, checkpoints) {}

void TrainingLoop::section(const char* name) {
  if (beat_) beat_->enter(beat_->section(name));
  section_ = name;
}

// A save that is not staged writes where it stands.
void TrainingLoop::tell_written(std::int64_t bytes) {
  if (section_ != beat_checkpoint_write) section(beat_checkpoint_write);
  if (beat_) beat_->wrote(bytes);
}

TrainingState TrainingLoop::state() {
  TrainingState state;
  state.layout = &trainer_.store().layout();
  state.shape = trainer_.store().shape();
  state.masters = {trainer_.store().masters(), trainer_.store().device()};
  state.exp_avg = trainer_.optimizer().exp_avg();
  state.exp_avg_sq = trainer_.optimizer().exp_avg_sq();
  state.progress = trainer_.progress();
  state.seed = options_.seed;
  state.extra = Value::make_table();
  if (ordered_lr_ > 0) state.extra.set(ordered_lr_key, ordered_lr_);
  if (time_line_.number() > 0) state.extra.set(time_line_key, time_line_.number());
  state.extra.set(spikes_key, trainer_.spike_guard().state());
  if (Value low = trainer_.low_precision_state(); low.is_table()) state.extra.set(low_precision_key, std::move(low));
  if (trainer_.skipped_samples() > 0) state.extra.set(skipped_key, trainer_.skipped_samples());
  if (outcome_.tokens > 0) state.extra.set(checkpoint_loss_key, outcome_.loss);
  if (heldout_step_ == state.progress.step) state.extra.set(checkpoint_heldout_loss_key, outcome_.heldout_loss);
  return state;
}

Result<bool> TrainingLoop::restore(const ComputeContext& context) {
  section("load");
  load_begun_ns_ = clock_.monotonic_ns();
  LH_TRY(time_line_, read_time_line(trainer_.group(), checkpoints_.folder(), checkpoints_.retry()));
  TrainingState state = this->state();
  std::string path;
  if (!options_.start_checkpoint.empty()) {
    LH_CHECK(checkpoints_.load_together(trainer_.group(), options_.start_checkpoint, state, context.threads()));
    path = options_.start_checkpoint;
    loaded_.from = "checkpoint";
  } else {
    LH_TRY(loaded_, load_newest_state(trainer_.group(), checkpoints_, options_.local_copies, state, context.threads(),
                                      time_line_));
    tell_passed_over();
    LH_CHECK(may_begin_at(loaded_.from.empty() ? 0 : state.progress.step, options_.at_least_step, loaded_, time_line_));
    if (loaded_.from.empty()) {
      if (options_.curves) LH_CHECK(options_.curves->resumed_after(0));  // a launch before may have left a file
      return false;
    }
    path = loaded_.path;
  }
  if (state.seed != options_.seed)
    return make_error(ErrorCode::invalid_input,
                      format("{} was trained with seed {}, this stage has seed {}", path, state.seed, options_.seed),
                      "the data order would change; use the same seed");
  trainer_.progress() = state.progress;
  LH_CHECK(take(state.extra, false).with_context(path));
  trainer_.store().refresh_compute_copy(context);
  saved_step_ = outcome_.resumed_at = state.progress.step;
  events_.message("info", format("goes on from step {} ({})", state.progress.step, path));
  tell_conversion(state);
  if (options_.curves) LH_CHECK(options_.curves->resumed_after(state.progress.step));
  return true;
}

void TrainingLoop::tell_passed_over() {
  std::vector<std::string>& all = loaded_.passed_over;
  if (all.size() > passed_over_told) {
    const std::size_t more = all.size() - passed_over_told;
    all.resize(passed_over_told);
    all.push_back(format("and {} more", more));
  }
  for (const std::string& why : all) events_.message("warn", "passed over: " + why);
}

void TrainingLoop::tell_conversion(const TrainingState& loaded) {
  const StateTypes from = loaded.stored_types, to = loaded.types();
  const char* names[] = {"weights", "first moments", "second moments"};
  for (std::size_t array = 0; array < to.size(); ++array)
    if (from[array] != to[array])
      events_.message("info", format("{}: {} in the checkpoint, {} here, {}", names[array], dtype_name(from[array]),
                                     dtype_name(to[array]),
                                     to[array] == DType::bf16 ? "rounded to nearest" : "widened without loss"));
}

Status TrainingLoop::take(const Value& extra, bool rolled_back) {
  if (const double ordered = extra.get_number(ordered_lr_key); ordered > 0 && !rolled_back) set_learning_rate(ordered);
  trainer_.skipped_samples() = extra.get_integer(skipped_key);
  if (const Value* low = extra.find(low_precision_key)) LH_CHECK(trainer_.restore_low_precision(*low));
  const Value* spikes = extra.find(spikes_key);
  if (!spikes) return {};  // of a version without
  return rolled_back ? trainer_.spike_guard().restore_window(*spikes)
                     : trainer_.spike_guard().restore(time_line_.spikes_of(extra, *spikes));
}

void TrainingLoop::tell_bad(const StepReport& bad) {
  (bad.end == StepEnd::skipped ? outcome_.skipped : outcome_.rollbacks) += 1;
  Value fields = Value::make_table();
  fields.set("step", bad.step);
  fields.set("loss", bad.loss);
  fields.set("grad_norm", bad.grad_norm);
  fields.set("action", bad.end == StepEnd::skipped ? "skip" : "rollback");
  fields.set("problem", bad.problem);
  events_.write("spike", std::move(fields));
  events_.message("warn", bad.problem + (bad.end == StepEnd::skipped ? "; its update is left out" : "; rolling back"));
}

void TrainingLoop::report_ready() {
  Value fields = Value::make_table();
  fields.set("step", trainer_.progress().step);
  fields.set("load_s", load_begun_ns_ > 0 ? static_cast<double>(clock_.monotonic_ns() - load_begun_ns_) * 1e-9 : 0.0);
  if (!loaded_.from.empty()) fields.set("from", loaded_.from);
  if (loaded_.from == "copies") {
    fields.set("own_copies", loaded_.own_copies);
    fields.set("partner_copies", loaded_.partner_copies);
  }
  if (!loaded_.passed_over.empty()) {
    Value passed_over = Value::make_array();
    for (const std::string& why : loaded_.passed_over) passed_over.push_back(why);
    fields.set("passed_over", std::move(passed_over));
  }
  events_.write("ready", std::move(fields));
}

void TrainingLoop::tell_phase(std::int64_t step) {
  const PlannedPhase* phase = trainer_.phase_at(step);
  if (phase == told_phase_) return;
  told_phase_ = phase;
  Value fields = Value::make_table();
  fields.set("name", phase->name);
  fields.set("step", step);
  fields.set("last_step", phase->last_step);
  fields.set("sequence_length", phase->sequence_length);
  events_.write("phase", std::move(fields));
  events_.message("info", format("phase {}: steps {} to {}, sequences of {} tokens, learning rate to {:g}", phase->name,
                                 phase->first_step, phase->last_step, phase->sequence_length, phase->lr_end));
}

double TrainingLoop::flops_per_token(std::int64_t step) const {
  const PlannedPhase* phase = trainer_.phase_at(step);
  return phase ? trainer_.store().shape().train_flops_per_token(phase->sequence_length) : options_.flops_per_token;
}

Status TrainingLoop::save() {
  if (saved_step_ == trainer_.progress().step) return {};
  waited_ = 0;
  if (saver_.busy()) {
    const std::int64_t begun = clock_.monotonic_ns(), before = saver_.step();
    LH_CHECK(finish_save());
    waited_ = static_cast<double>(clock_.monotonic_ns() - begun) * 1e-9;
    events_.message("warn", format("the checkpoint of step {} waited {:.1f} s for that of step {} to be written",
                                   trainer_.progress().step, waited_, before));
  }
  section(beat_checkpoint);
  const Status started = saver_.start(trainer_.group(), state());
  if (!started.ok()) events_.message("warn", "no checkpoint: " + started.error().message());
  LH_CHECK(started);
  saved_step_ = trainer_.progress().step;
  return options_.saver.asynchronous ? Status() : finish_save();
}

Status TrainingLoop::advance_save() {
  const auto whole = saver_.advance(trainer_.group());
  if (!whole.ok()) events_.message("warn", "no checkpoint: " + whole.error().message());
  LH_CHECK(whole);
  if (!*whole) return {};
  report_save(**whole);
  return read_back_.want(trainer_.group(), **whole, saver_.votes());
}

Status TrainingLoop::finish_save() {
  if (!saver_.busy()) return {};
  section(beat_checkpoint_write);
  const auto whole = saver_.finish(trainer_.group());
  if (!whole.ok()) events_.message("warn", "no checkpoint: " + whole.error().message());
  LH_CHECK(whole);
  report_save(*whole);
  return read_back_.want(trainer_.group(), *whole, saver_.votes());
}

Status TrainingLoop::copy_locally(bool advance, bool due) {
  LocalCopies* copies = options_.local_copies;
  if (!copies) return {};
  if (advance) {
    const auto copied = copies->advance(trainer_.group());
    if (!copied.ok() && copied.error().code != ErrorCode::io) return copied.error();
    if (!copied.ok()) {
      events_.message("warn", "no copy on the nodes: " + copied.error().message());
    } else {
      Value fields = Value::make_table();
      fields.set("step", copied->step);
      fields.set("path", copied->path);
      fields.set("stall_s", copied->seconds);
      fields.set("write_s", copied->write_seconds);
      events_.write("local_copy", std::move(fields));
    }
  }
  if (!due || copies->busy()) return {};  // one that takes longer than the interval is not waited for
  section(beat_checkpoint);
  return copies->start(trainer_.group(), state());
}

Status TrainingLoop::evaluate(BatchSource& heldout) {
  section("evaluate");
  LH_TRY(const ObjectiveSums sums, trainer_.evaluate(heldout, options_.eval_samples));
  if (!(sums.count > 0)) return make_error(ErrorCode::invalid_input, "the held-out data has nothing to predict");
  outcome_.heldout = sums;
  outcome_.heldout_loss = sums.loss / sums.count;
  heldout_step_ = trainer_.progress().step;
  if (options_.kernel_timer) (void)options_.kernel_timer->take().ok();  // those of the evaluation are no step's
  Value fields = Value::make_table();
  fields.set("step", trainer_.progress().step);
  fields.set("heldout_loss", outcome_.heldout_loss);
  const std::vector<std::string> extra = objective_.extra_names();
  for (std::size_t i = 0; i < extra.size(); ++i) fields.set("heldout_" + extra[i], sums.extra[i] / sums.count);
  write_metric(std::move(fields));
  return {};
}

void TrainingLoop::write_metric(Value fields) {
  const std::int64_t step = fields.get_integer("step");
  for (const ValueMember& field : fields.as_table()) {
    if (!options_.curves || field.key == "step") continue;
    if (const Status written = options_.curves->scalar(field.key, step, field.value.as_number()); !written.ok()) {
      events_.message("warn", "no more curves for TensorBoard: " + written.error().message());
      options_.curves = nullptr;  // no reason to end the training
    }
  }
  events_.write("metric", std::move(fields));
}

void TrainingLoop::report(const StepReport& step, double seconds) {
  Value fields = Value::make_table();
  fields.set("step", step.step);
  fields.set("loss", step.loss);
  fields.set("lr", step.lr);
  fields.set("grad_norm", step.grad_norm);
  fields.set("consumed_samples", trainer_.progress().consumed_samples);
  fields.set("step_s", seconds);
  fields.set("tokens_per_s", step.tokens / seconds);
  if (step.computed_tokens > step.tokens) fields.set("computed_tokens_per_s", step.computed_tokens / seconds);
  if (trainer_.group().size() > 1) fields.set("waited_s", step.waited_s);
  for (int i = 0; i < mesh_axes; ++i)
    if (const auto axis = static_cast<MeshAxis>(i); step.traffic[axis].sent > 0)
      fields.set(format("sent_{}_bytes", to_string(axis)), static_cast<double>(step.traffic[axis].sent));
  if (const double flops = flops_per_token(step.step) * step.tokens / seconds; flops > 0) {
    fields.set("gflops", flops * 1e-9);
    if (options_.peak_flops > 0) fields.set("mfu", flops / options_.peak_flops);
  }
  if (!kernels_of_step_.empty()) {
    fields.set("gpu_compute_s", 1e-9 * static_cast<double>(kernels_of_step_.compute_ns()));
    fields.set("gpu_communication_s", 1e-9 * static_cast<double>(kernels_of_step_.communication_ns()));
  }
  if (step.load.worst > 0) {  // a model with experts
    fields.set("aux_loss", step.balance_loss);
    fields.set("z_loss", step.z_loss);
    fields.set("expert_load_worst", step.load.worst);
    fields.set("expert_load_mean", step.load.mean);
  }
  const std::vector<std::string> extra = objective_.extra_names();
  for (std::size_t i = 0; i < extra.size(); ++i) fields.set(extra[i], step.extra[i]);
  objective_.add_metrics(fields);
  write_metric(std::move(fields));
  // The rate is that of this launch: steps done by an earlier one took no time here.
  const double done_here = static_cast<double>(step.step - std::max<std::int64_t>(0, outcome_.resumed_at));
  events_.progress(static_cast<double>(step.step), static_cast<double>(trainer_.options().steps), "steps",
                   done_here / outcome_.seconds);
}

// One event for all layers, and in words whatever changed: in the first measurement, what it keeps in high precision.
void TrainingLoop::report_verdicts(const StepReport& step) {
  for (const std::string& note : step.low_precision_notes) events_.message("info", note);
  if (step.verdicts.empty()) return;
  const auto number = [](double x) { return std::isfinite(x) ? Value(x) : Value(format("{}", x)); };
  Value layers = Value::make_array();
  std::int64_t low = 0;
  for (const LayerVerdict& verdict : step.verdicts) {
    low += verdict.low;
    Value one = Value::make_table();
    one.set("layer", static_cast<std::int64_t>(verdict.layer));
    one.set("low_precision", verdict.low);
    one.set("snr_db", number(verdict.snr_db));
    one.set("flushed", verdict.flushed);
    one.set("saturated", verdict.saturated);
    if (!verdict.low) one.set("reason", verdict.reason);
    layers.push_back(std::move(one));
    if (!verdict.changed) continue;
    if (!verdict.low)
      events_.message("warn", format("layer {} computes in high precision from step {} on: {}", verdict.layer,
                                     step.step + 1, verdict.reason));
    else
      events_.message(
          "info", format("layer {} computes in low precision from step {} on: {:.1f} dB, {:.3g} % become "
                         "zero, {:.3g} % saturate",
                         verdict.layer, step.step + 1, verdict.snr_db, 100 * verdict.flushed, 100 * verdict.saturated));
  }
  Value fields = Value::make_table();
  fields.set("step", step.step);
  fields.set("low_precision_layers", low);
  fields.set("products", step.multiplies_low ? "fp8" : "emulated");
  fields.set("layers", std::move(layers));
  events_.write("low_precision", std::move(fields));
}

void TrainingLoop::trace_begin(std::int64_t step) {
  if (options_.trace && options_.trace_settings.steps > 0 && step == options_.trace_settings.first_step)
    options_.trace->record(true);
}

void TrainingLoop::trace_end(std::int64_t step) {
  const TraceSettings& s = options_.trace_settings;
  if (!options_.trace || !options_.trace->recording()) return;
  if (step < s.first_step + s.steps - 1 && step < trainer_.options().steps) return;
  options_.trace->record(false);
  const int rank = trainer_.group().rank();
  Status written = make_directories(options_.trace_folder);
  if (written.ok())
    written = options_.trace->write(join_path(options_.trace_folder, format("rank-{}.json", rank)), rank);
  if (!written.ok()) events_.message("warn", "no trace: " + written.error().message());  // no reason to end
}

void TrainingLoop::set_learning_rate(double peak) {
  ordered_lr_ = peak;
  trainer_.set_peak_learning_rate(peak);
}

namespace {
// What a rank tells the others after a step.
struct Told {
  enum Field {
    stop,
    signal,
    shorten,
    save,
    writing,
    copying,
    reading,
    interval,
    lr,
    copies,
    left,
    saves,
    lasts,
    fields
  };
};

void told_to_stop(StopCause& cause, int rank, int signal) {
  cause.signal = cause.told.empty() || cause.signal == signal ? signal : 0;
  cause.told.push_back(rank);
}
}  // namespace

void TrainingLoop::tell(std::span<double> mine) {
  if (stop_.load(std::memory_order_relaxed)) mine[Told::stop] = 1;
  if (options_.stop_signal) mine[Told::signal] = options_.stop_signal->load(std::memory_order_relaxed);
  if (!saver_.ready()) mine[Told::writing] = 1;
  if (options_.local_copies && !options_.local_copies->ready()) mine[Told::copying] = 1;
  if (!read_back_.ready()) mine[Told::reading] = 1;
  if (beat_) {
    if (beat_->stop_after_step() >= 0 && trainer_.progress().step >= beat_->stop_after_step()) mine[Told::shorten] = 1;
    const std::int64_t orders = beat_->checkpoint_orders();
    if (orders != checkpoint_orders_seen_) mine[Told::save] = 1;
    checkpoint_orders_seen_ = orders;
    mine[Told::interval] = static_cast<double>(beat_->checkpoint_interval());
    mine[Told::lr] = beat_->learning_rate();
    const std::int64_t end_ns = beat_->end_by_ns();
    if (end_ns > 0) mine[Told::left] = std::max(1e-3, static_cast<double>(end_ns - clock_.monotonic_ns()) * 1e-9);
  }
  mine[Told::saves] = save_seconds_, mine[Told::lasts] = step_seconds_;
  if (snapshot_)
    mine[Told::copies] = static_cast<double>(
        copy_interval(options_.snapshot_every_steps, copy_seconds_, step_seconds_, options_.snapshot_share_max));
}

Result<TrainingLoop::Asked> TrainingLoop::asked() {
  const std::int64_t step = trainer_.progress().step;
  Asked asked;
  if (beat_) asked.orders = beat_->orders();
  double mine[Told::fields] = {};
  tell(mine);
  const std::size_t ranks = static_cast<std::size_t>(trainer_.group().size());
  std::vector<double> all(ranks * Told::fields);
  LH_CHECK(trainer_.group().all_gather(mine, all));
  asked.advance = saver_.busy();
  asked.advance_copy = options_.local_copies && options_.local_copies->busy();
  asked.advance_read = read_back_.busy();
  for (std::size_t i = 0; i < ranks; ++i) {
    const double* of_rank = &all[i * Told::fields];
    asked.advance &= of_rank[Told::writing] == 0;
    asked.advance_copy &= of_rank[Told::copying] == 0;
    asked.advance_read &= of_rank[Told::reading] == 0;
    if (of_rank[Told::stop] > 0)
      told_to_stop(asked.cause, static_cast<int>(i), static_cast<int>(of_rank[Told::signal]));
    asked.shorten |= of_rank[Told::shorten] > 0, asked.ordered |= of_rank[Told::save] > 0;
    asked.save_s = std::max(asked.save_s, of_rank[Told::saves]);
    if (of_rank[Told::left] > 0 && (!asked.time_is_known || of_rank[Told::left] < asked.left_s))
      asked.time_is_known = true, asked.left_s = of_rank[Told::left];
    asked.copy_every = std::max(asked.copy_every, static_cast<std::int64_t>(of_rank[Told::copies]));
  }
  asked.cause.ranks = static_cast<int>(ranks);
  // Or by an own timer: after one step more it would be too late.
  const double needed_s = save_margin * (asked.save_s * (saver_.busy() ? 2 : 1) + all[Told::lasts]) + end_margin_s;
  asked.stop = !asked.cause.told.empty() || (asked.time_is_known && asked.left_s < needed_s);
  // Values are one order for the whole launch: the first rank's page counts.
  const std::int64_t every =
      all[Told::interval] > 0 ? static_cast<std::int64_t>(all[Told::interval]) : options_.checkpoint_every_steps;
  asked.save = asked.ordered || (every > 0 && step % every == 0);
  if (all[Told::lr] > 0 && all[Told::lr] != ordered_lr_) {
    set_learning_rate(all[Told::lr]);
    events_.message("info",
                    format("the learning rate's peak is {:g} from step {} on, as ordered", all[Told::lr], step + 1));
  }
  return asked;
}

// What the last step took goes with the number of the next one: whoever looks between the two, while faster ranks wait
// for this one, would count a step too much or too little.
void TrainingLoop::tell_begin(std::int64_t step) {
  if (!beat_) return;
  if (computed_ns_ > 0) beat_->computed(std::exchange(computed_ns_, 0));
  beat_->step(step);
}

Result<bool> TrainingLoop::do_step() {
  section("micro_batch");  // already here: one that hangs on its way into a step hangs in a section that was timed
  if (auto fault = fault_here(FaultPoint::engine_step_begin)) return *fault;
  tell_begin(trainer_.progress().step + 1);
  tell_phase(trainer_.progress().step + 1);
  trace_begin(trainer_.progress().step + 1);
  if (const auto skipped = time_line_.skipped_from(trainer_.progress().step)) trainer_.skipped_samples() = *skipped;
  const std::int64_t begun = clock_.monotonic_ns();
  const Result<StepReport> done = trainer_.step();
  trace_end(trainer_.progress().step);
  LH_CHECK(done);
  const StepReport& step = *done;
  const double seconds = static_cast<double>(clock_.monotonic_ns() - begun) * 1e-9;
  step_seconds_ = seconds;
  computed_ns_ = static_cast<std::int64_t>(1e9 * (seconds - step.waited_s));
  if (const std::int64_t kernels_ns = kernels_of_step_.compute_ns(); kernels_ns > 0) computed_ns_ = kernels_ns;
  outcome_.tokens += step.tokens, outcome_.computed_tokens += step.computed_tokens, outcome_.seconds += seconds;
  outcome_.flops += flops_per_token(step.step) * step.tokens;
  if (step.end != StepEnd::done) tell_bad(step);
  if (step.end == StepEnd::roll_back) {
    LH_CHECK(roll_back(step).with_context(format("step {}", step.step)));
    return false;
  }
  ++version_;
  if (step.end == StepEnd::done) {
    outcome_.loss = step.loss;
    report(step, seconds);
    report_verdicts(step);
  }
  report_kernels(step.step);
  if (auto fault = fault_here(FaultPoint::engine_step_done)) return *fault;
  return true;
}

Result<bool> TrainingLoop::end_step(BatchSource* heldout) {
  const std::int64_t steps = trainer_.options().steps, step = trainer_.progress().step;
  const bool early = step < steps;
  if (early && options_.milestone_every_steps > 0 && step % options_.milestone_every_steps == 0)
    LH_CHECK(options_.on_milestone({step, outcome_.loss, ordered_lr_ > 0}));
  LH_TRY(Asked told, asked());
  if (told.advance_read) LH_CHECK(advance_read_back());
  if (told.advance) LH_CHECK(advance_save());
  if (told.stop && early && saver_.busy()) {  // whether a last one fits is known once the one under way is whole
    LH_CHECK(finish_save());
    LH_TRY(told, asked());
  }
  const bool ends = (told.stop || told.shorten) && early, fits = !ends || told.shorten || told.fits();
  if (heldout && !ends && early && options_.eval_every_steps > 0 && step % options_.eval_every_steps == 0)
    LH_CHECK(evaluate(*heldout));  // before a save: the checkpoint knows its held-out loss
  if ((told.save || (ends && options_.save_at_end)) && fits) LH_CHECK(save());
  if (!fits)
    events_.message("warn", format("no checkpoint of step {}: {:.1f} s are left, the last took {:.1f} s", step,
                                   told.left_s, told.save_s));
  const bool copy = options_.local_every_steps > 0 && step % options_.local_every_steps == 0;
  LH_CHECK(copy_locally(told.advance_copy, copy && early && saved_step_ != step));
  if (told.ordered || ends) LH_CHECK(finish_save());  // who gave the order hears of a whole checkpoint
  if (const Status kept = told.ordered ? saver_.pin(trainer_.group()) : Status(); !kept.ok())
    events_.message("warn", "the ordered checkpoint goes as others do: " + kept.error().message());
  if (beat_) beat_->obeyed(told.orders);
  checkpoint_orders_obeyed_ = checkpoint_orders_seen_;
  if (told.shorten && early) {
    outcome_.shortened = true;
    events_.message("info", format("ends after step {} of {}, as ordered", step, steps));
  } else if (told.stop && early) {
    outcome_.stopped = true, outcome_.saved_at_stop = fits && options_.save_at_end,
    outcome_.stop_cause = std::move(told.cause);
  } else if (early) {
    keep_copy(told.copy_every);
  }
  return ends;
}

Status TrainingLoop::run_steps(BatchSource* heldout) {
  bool ends = false;
  if (std::exchange(end_again_, false)) {
    LH_TRY(ends, end_step(heldout));
  }
  while (!ends && trainer_.progress().step < trainer_.options().steps) {
    LH_TRY(const bool stepped, do_step());
    if (stepped) {
      LH_TRY(ends, end_step(heldout));
    }
  }
  outcome_.step = trainer_.progress().step;
  outcome_.steered = outcome_.shortened || ordered_lr_ > 0;
  if (outcome_.stopped) return {};
  if (!options_.save_at_end) {
    LH_CHECK(finish_save());
    return finish_read_back();
  }
  LH_CHECK(save());
  if (heldout) LH_CHECK(evaluate(*heldout));  // while it is written
  LH_CHECK(finish_save());
  return finish_read_back();
}

Result<TrainingOutcome> TrainingLoop::run(BatchSource* heldout) {
  const CrashContext here([this] {
    return format("rank {} of {}, after step {}", trainer_.group().rank(), trainer_.group().size(),
                  trainer_.progress().step);
  });
  trainer_.on_micro_batch = [this](std::int64_t, int) { section("micro_batch"); };
  trainer_.before_change = [this] {
    take_kernel_times();
    saver_.finish_copy();
  };
  trainer_.fails_alone = [this](const Error& fault) {
    return options_.restart && beat_ && beat_->restart_wait_ms() > 0 && may_pass(fault);
  };
  if (const Status reserved = saver_.reserve(trainer_.store().layout(), state().types()); !reserved.ok())
    events_.message("warn", reserved.error().message());
  keep_copy(options_.snapshot_every_steps);
  if (trainer_.progress().step < trainer_.options().steps) report_ready();
  while (true) {
    const Status done = run_steps(heldout);
    if (done.ok()) return outcome_;
    const Status restarted = restart(done.error());
    if (restarted.ok()) continue;
    // Alone, the checkpoint under way is still worth its wait; of several ranks the others may not have failed.
    if (trainer_.group().size() == 1) (void)finish_save().ok();
    return restarted.error();
  }
}

}  // namespace longhaul
