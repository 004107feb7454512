#include "engine/train/loop/training_reporter.h"

#include <cmath>
#include <utility>

#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::size_t passed_over_reported = 8;  // of thousands of nodes

void set_rates(Value& fields, const StepReport& step, double seconds) {
  fields.set("step_s", seconds);
  fields.set("tokens_per_s", step.tokens / seconds);
  if (step.computed_tokens > step.tokens) fields.set("computed_tokens_per_s", step.computed_tokens / seconds);
}

void set_traffic(Value& fields, const StepReport& step) {
  for (int i = 0; i < mesh_axes; ++i)
    if (const auto axis = static_cast<MeshAxis>(i); step.traffic[axis].sent > 0)
      fields.set(format("sent_{}_bytes", to_string(axis)), static_cast<double>(step.traffic[axis].sent));
}

// Of a model with experts.
void set_experts(Value& fields, const StepReport& step) {
  if (!(step.load.worst > 0)) return;
  fields.set("aux_loss", step.balance_loss);
  fields.set("z_loss", step.z_loss);
  fields.set("expert_load_worst", step.load.worst);
  fields.set("expert_load_mean", step.load.mean);
}

Value fields_of(const LayerVerdict& verdict) {
  const auto number = [](double x) { return std::isfinite(x) ? Value(x) : Value(format("{}", x)); };
  Value one = Value::make_table();
  one.set("layer", static_cast<std::int64_t>(verdict.layer));
  one.set("low_precision", verdict.low);
  one.set("snr_db", number(verdict.snr_db));
  one.set("flushed", verdict.flushed);
  one.set("saturated", verdict.saturated);
  if (!verdict.low) one.set("reason", verdict.reason);
  return one;
}

}  // namespace

void TrainingReporter::passed_over(LoadedState& loaded) {
  std::vector<std::string>& all = loaded.passed_over;
  if (all.size() > passed_over_reported) {
    const std::size_t more = all.size() - passed_over_reported;
    all.resize(passed_over_reported);
    all.push_back(format("and {} more", more));
  }
  for (const std::string& why : all) context_.events.message("warn", "passed over: " + why);
}

void TrainingReporter::conversion(const TrainingState& loaded) {
  const StateTypes from = loaded.stored_types, to = loaded.types();
  const char* names[] = {"weights", "first moments", "second moments"};
  for (std::size_t array = 0; array < to.size(); ++array)
    if (from[array] != to[array])
      context_.events.message("info", format("{}: {} in the checkpoint, {} here, {}", names[array],
                                             dtype_name(from[array]), dtype_name(to[array]),
                                             to[array] == DType::bf16 ? "rounded to nearest" : "widened without loss"));
}

void TrainingReporter::ready(const LoadedState& loaded, std::int64_t load_begun_ns) {
  TrainingOutcome& outcome = context_.outcome;
  outcome.ready_ns = context_.clock.monotonic_ns(), outcome.ready_step = context_.step();
  Value fields = Value::make_table();
  fields.set("step", outcome.ready_step);
  fields.set("load_s", load_begun_ns > 0 ? static_cast<double>(outcome.ready_ns - load_begun_ns) * 1e-9 : 0.0);
  if (!loaded.from.empty()) fields.set("from", loaded.from);
  if (loaded.from == "copies") {
    fields.set("own_copies", loaded.own_copies);
    fields.set("partner_copies", loaded.partner_copies);
  }
  if (!loaded.passed_over.empty()) {
    Value reasons = Value::make_array();
    for (const std::string& why : loaded.passed_over) reasons.push_back(why);
    fields.set("passed_over", std::move(reasons));
  }
  context_.events.write("ready", std::move(fields));
}

// What the last step took goes with the number of the next one: whoever looks between the two, while faster ranks wait
// for this one, would count a step too much or too little.
void TrainingReporter::begin_step(std::int64_t step) {
  if (HeartbeatPage* beat = context_.beat) {
    if (computed_ns_ > 0) beat->computed(std::exchange(computed_ns_, 0));
    beat->step(step);
  }
  phase(step);
  const TrainingLoopOptions& options = context_.options;
  if (options.trace && options.trace_settings.steps > 0 && step == options.trace_settings.first_step)
    options.trace->record(true);
}

void TrainingReporter::phase(std::int64_t step) {
  const PlannedPhase* next = context_.trainer.phase_at(step);
  if (next == reported_phase_) return;
  reported_phase_ = next;
  Value fields = Value::make_table();
  fields.set("name", next->name);
  fields.set("step", step);
  fields.set("last_step", next->last_step);
  fields.set("sequence_length", next->sequence_length);
  context_.events.write("phase", std::move(fields));
  context_.events.message("info",
                          format("phase {}: steps {} to {}, sequences of {} tokens, learning rate to {:g}", next->name,
                                 next->first_step, next->last_step, next->sequence_length, next->lr_end));
}

void TrainingReporter::end_trace() {
  const TrainingLoopOptions& options = context_.options;
  const TraceSettings& s = options.trace_settings;
  const std::int64_t step = context_.step();
  if (!options.trace || !options.trace->recording()) return;
  if (step < s.first_step + s.steps - 1 && step < context_.steps()) return;
  options.trace->record(false);
  const int rank = context_.group().rank();
  Status written = make_directories(options.trace_folder);
  if (written.ok()) written = options.trace->write(join_path(options.trace_folder, format("rank-{}.json", rank)), rank);
  if (!written.ok()) context_.events.message("warn", "no trace: " + written.error().message());  // no reason to end
}

double TrainingReporter::flops_per_token(std::int64_t step) const {
  const PlannedPhase* phase = context_.trainer.phase_at(step);
  return phase ? context_.trainer.store().shape().train_flops_per_token(phase->sequence_length)
               : context_.options.flops_per_token;
}

void TrainingReporter::count_step(const StepReport& step, double seconds) {
  computed_ns_ = static_cast<std::int64_t>(1e9 * (seconds - step.waited_s));
  if (const std::int64_t kernels_ns = kernels_.of_step().compute_ns(); kernels_ns > 0) computed_ns_ = kernels_ns;
  TrainingOutcome& outcome = context_.outcome;
  outcome.tokens += step.tokens, outcome.computed_tokens += step.computed_tokens, outcome.seconds += seconds;
  outcome.flops += flops_per_token(step.step) * step.tokens;
}

void TrainingReporter::bad_step(const StepReport& bad) {
  const bool skipped = bad.end == StepEnd::skipped;
  (skipped ? context_.outcome.skipped : context_.outcome.rollbacks) += 1;
  Value fields = Value::make_table();
  fields.set("step", bad.step);
  fields.set("loss", bad.loss);
  fields.set("grad_norm", bad.grad_norm);
  fields.set("action", skipped ? "skip" : "rollback");
  fields.set("problem", bad.problem);
  context_.events.write("spike", std::move(fields));
  context_.events.message("warn", bad.problem + (skipped ? "; its update is left out" : "; rolling back"));
}

void TrainingReporter::step_done(const StepReport& step, double seconds) {
  Trainer& trainer = context_.trainer;
  Value fields = Value::make_table();
  fields.set("step", step.step);
  fields.set("loss", step.loss);
  fields.set("lr", step.lr);
  fields.set("grad_norm", step.grad_norm);
  fields.set("consumed_samples", trainer.progress().consumed_samples);
  set_rates(fields, step, seconds);
  if (trainer.group().size() > 1) fields.set("waited_s", step.waited_s);
  set_traffic(fields, step);
  if (const double flops = flops_per_token(step.step) * step.tokens / seconds; flops > 0) {
    fields.set("gflops", flops * 1e-9);
    if (context_.options.peak_flops > 0) fields.set("mfu", flops / context_.options.peak_flops);
  }
  if (const KernelTable& table = kernels_.of_step(); !table.empty()) {
    fields.set("gpu_compute_s", 1e-9 * static_cast<double>(table.compute_ns()));
    fields.set("gpu_communication_s", 1e-9 * static_cast<double>(table.communication_ns()));
  }
  set_experts(fields, step);
  const std::vector<std::string> extra = context_.objective.extra_names();
  for (std::size_t i = 0; i < extra.size(); ++i) fields.set(extra[i], step.extra[i]);
  if (const std::string name = context_.objective.largest_name(); !name.empty()) fields.set(name, step.largest);
  context_.objective.add_metrics(fields);
  metric(std::move(fields));
  // The rate is that of this launch, with all that it does between steps.
  context_.events.progress(static_cast<double>(step.step), static_cast<double>(context_.steps()), "steps",
                           context_.outcome.steps_per_s(step.step, context_.clock.monotonic_ns()));
  low_precision(step);
}

void TrainingReporter::evaluation(const ObjectiveSums& sums) {
  kernels_.discard();  // those of the evaluation are no step's
  Value fields = Value::make_table();
  fields.set("step", context_.step());
  fields.set("heldout_loss", context_.outcome.heldout_loss);
  const std::vector<std::string> extra = context_.objective.extra_names();
  for (std::size_t i = 0; i < extra.size(); ++i) fields.set("heldout_" + extra[i], sums.extra[i] / sums.count);
  if (const std::string name = context_.objective.largest_name(); !name.empty())
    fields.set("heldout_" + name, sums.largest);
  metric(std::move(fields));
}

void TrainingReporter::metric(Value fields) {
  const std::int64_t step = fields.get_integer("step");
  for (const ValueMember& field : fields.as_table()) {
    if (!curves_ || field.key == "step") continue;
    if (const Status written = curves_->scalar(field.key, step, field.value.as_number()); !written.ok()) {
      context_.events.message("warn", "no more curves for TensorBoard: " + written.error().message());
      curves_ = nullptr;  // no reason to end the training
    }
  }
  context_.events.write("metric", std::move(fields));
}

// One event for all layers, and a message of whatever changed: in the first measurement, what it keeps in high
// precision.
void TrainingReporter::low_precision(const StepReport& step) {
  EventWriter& events = context_.events;
  for (const std::string& note : step.low_precision_notes) events.message("info", note);
  if (step.verdicts.empty()) return;
  Value layers = Value::make_array();
  std::int64_t low = 0;
  for (const LayerVerdict& verdict : step.verdicts) {
    low += verdict.low;
    layers.push_back(fields_of(verdict));
    if (!verdict.changed) continue;
    if (!verdict.low)
      events.message("warn", format("layer {} computes in high precision from step {} on: {}", verdict.layer,
                                    step.step + 1, verdict.reason));
    else
      events.message(
          "info", format("layer {} computes in low precision from step {} on: {:.1f} dB, {:.3g} % become "
                         "zero, {:.3g} % saturate",
                         verdict.layer, step.step + 1, verdict.snr_db, 100 * verdict.flushed, 100 * verdict.saturated));
  }
  Value fields = Value::make_table();
  fields.set("step", step.step);
  fields.set("low_precision_layers", low);
  fields.set("products", step.multiplies_low ? "fp8" : "emulated");
  fields.set("layers", std::move(layers));
  events.write("low_precision", std::move(fields));
}

}  // namespace longhaul
