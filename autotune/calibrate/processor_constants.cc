#include "autotune/calibrate/processor_constants.h"

#include <algorithm>

#include "autotune/hardware/measured_serving.h"
#include "autotune/inference/rollout_time.h"
#include "autotune/time/processor_place.h"
#include "autotune/time/step_time.h"
#include "base/system/clock.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr double product_evidence = 0.3;    // of a product, of a step's
constexpr double step_spread_least = 0.08;  // a training is not a step of a model made to be measured

struct RankField {
  const char* name;
  const char* unit;
  double start, spread, low, high;
};

// Wide beliefs: a processor may be anything. `start` of a peak is what its best product shows.
constexpr RankField rank_fields[] = {
    {"product_memory", "of the rate", 4, 1.5, 0.05, 1e3}, {"backward_products", "of the forward pass", 2.2, 0.3, 1, 8},
    {"attention", "of peak", 0.15, 1.0, 1e-4, 4},         {"memory_share", "of the rate", 0.6, 1.0, 1e-3, 10},
    {"kernel_latency", "us", 1, 1.0, 1e-2, 1e3},          {"logit_cost", "ns", 2, 1.0, 1e-3, 1e3},
    {"accumulate_traffic", "bytes", 12, 0.7, 1e-1, 1e3},  {"optimizer_traffic", "bytes", 40, 0.7, 1, 1e3},
    {"micro_batch_overhead", "ms", 0.1, 1.5, 1e-3, 1e2},  {"step_overhead", "ms", 0.3, 1.5, 1e-3, 1e2},
};

struct SectionLine {
  std::string name, unit;
  double value = 0;
};

void add_serving_lines(const ServingSpeed& speed, std::vector<SectionLine>& lines) {
  for (const ServedProduct& one : speed.products)
    lines.push_back({served_product_name(one.rows, one.set_bytes), "ns a weight", one.seconds * 1e9});
  if (!speed.known()) return;
  for (const ServingField& field : serving_fields()) lines.push_back({field.name, field.unit, speed.*field.at * 1e9});
}

void add_rollout_lines(const ProcessorSpeed& speed, std::vector<SectionLine>& lines) {
  if (!speed.serving.known() || speed.rollouts.empty()) return;
  const RolloutFactors factors = rollout_factors(speed.serving, speed.rollouts, speed.precision == "f32");
  lines.push_back({"drawing", "of its operations", factors.drawing});
  lines.push_back({"scoring", "of its operations", factors.scoring});
}

Precision speed_precision(const ProcessorSpeed& speed) {
  return speed.precision == "f32" ? Precision::f32 : Precision::bf16;
}

double four_digits(double value) {
  return std::strtod(format("{:.4g}", value).c_str(), nullptr);
}

std::string processor_section(const std::string& key, const std::vector<SectionLine>& lines,
                              const std::string& source) {
  std::string text = format("[processor.{}]\n", key);
  for (const SectionLine& line : lines)
    text += format("{} = {{ value = {}, unit = \"{}\", source = \"{}\" }}\n", line.name, line.value, line.unit, source);
  return text;
}

// What the fit begins with, and what it leaves alone.
std::vector<SectionLine> lines_to_begin_with(const ConstantTable& assumed, const ProcessorSpeed& speed) {
  double best = 0;
  for (const TimedProduct& one : speed.products)
    best = std::max(best, 2.0 * static_cast<double>(one.m * one.n) * static_cast<double>(one.k) / one.seconds);
  std::vector<SectionLine> lines = {{"peak_" + speed.precision, "TFLOP/s", best / 1e12},
                                    {"gemm_bf16", "of peak", 1},
                                    {"memory_rate", "GB/s", speed.copy_rate / 1e9},
                                    {"jitter", "a doubling", 0},
                                    {"spread_seen", "relative", step_spread_least}};
  if (speed.precision == "f32") lines.push_back({"peak_bf16", "TFLOP/s", best / 1e12});
  if (const Constant* power = assumed.find(format("gpu.{}.power", processor_key)))
    lines.push_back({"power", power->unit, power->value * speed.threads});
  for (const RankField& field : rank_fields) lines.push_back({field.name, field.unit, field.start});
  return lines;
}

TrainingTask timed_task(const TimedStep& step, int ranks) {
  TrainingTask task;
  ModelShape& shape = task.shape;
  shape.hidden_size = step.hidden, shape.num_hidden_layers = step.layers;
  shape.num_attention_heads = shape.num_key_value_heads = step.heads;
  shape.intermediate_size = step.feed_forward, shape.vocab_size = step.vocabulary;
  shape.max_position_embeddings = step.sequence_length;
  task.sequence_length = step.sequence_length;
  task.global_batch_size = step.micro_batch_size * step.micro_batches * ranks;
  return task;
}

TrainingLayout timed_layout(const TimedStep& step, const ProcessorSpeed& speed) {
  TrainingLayout layout;
  layout.dims.dp_replicate = speed.ranks;
  layout.micro_batch_size = static_cast<int>(step.micro_batch_size);
  layout.precision = speed_precision(speed);
  return layout;
}

Result<SiteMeasurements> timed_evidence(const ProcessorSpeed& speed) {
  SiteMeasurements found;
  const auto place = [ranks = speed.ranks, threads = speed.threads, precision = speed_precision(speed),
                      beside = speed.beside](const TimeConstants& constants) {
    return processor_place(constants, threads, ranks, precision, beside);
  };
  for (const TimedProduct& one : speed.products) {
    if (one.pass != ProductPass::forward) continue;
    double back = 0;
    for (const TimedProduct& other : speed.products)
      if (other.pass != ProductPass::forward && other.m == one.m && other.n == one.n && other.k == one.k)
        back += other.seconds;
    const auto seconds = [one, place, precision = speed_precision(speed)](const TimeConstants& constants,
                                                                          bool backward) {
      const auto at = place(constants);
      if (!at.ok()) return 0.0;
      return product_time(*at, precision, static_cast<double>(one.m), static_cast<double>(one.n),
                          static_cast<double>(one.k)) *
             (backward ? at->framework.backward_products : 1);
    };
    const std::string name = format("{}x{}x{}", one.m, one.n, one.k);
    found.parts.push_back(
        {name, one.seconds, product_evidence, [seconds](const TimeConstants& c) { return seconds(c, false); }});
    if (back > 0)
      found.parts.push_back(
          {name + " back", back, product_evidence, [seconds](const TimeConstants& c) { return seconds(c, true); }});
  }
  for (const TimedStep& one : speed.steps) {
    TrainingTask task = timed_task(one, speed.ranks);
    LH_TRY(task.shape, resolve_shape(task.shape));
    const auto predicted = [task, place, layout = timed_layout(one, speed)](const TimeConstants& constants) {
      const auto at = place(constants);
      const auto time = at.ok() ? step_time(task, layout, *at) : Result<StepTime>(at.error());
      return time.ok() ? time->seconds() : 0.0;
    };
    found.trainings.push_back({format("hidden {}, layers {}, vocabulary {}, {} x {} of {}", one.hidden, one.layers,
                                      one.vocabulary, one.micro_batches, one.micro_batch_size, one.sequence_length),
                               one.seconds, 1, predicted});
  }
  return found;
}

}  // namespace

Result<ProcessorConstants> processor_constants(const ConstantTable& assumed, const ProcessorSpeed& speed) {
  const std::string key = speed.use().text();
  const std::string path = format("processor.{}.", key);
  const std::string source =
      format("{}, {}, {} a rank: measured {}", speed.identity.processor, speed.identity.products,
             speed.threads == 1 ? "a core" : format("{} cores", speed.threads), utc_text(speed.at_ms));
  std::vector<SectionLine> lines = lines_to_begin_with(assumed, speed);
  const std::string rest = assumed.to_toml() + "\n";
  LH_TRY(ConstantTable table, ConstantTable::parse(rest + processor_section(key, lines, source), "constants"));
  std::vector<FitParameter> parameters = {{path + "peak_" + speed.precision, lines.front().value, 0.3, 1e-4, 1e3}};
  for (const RankField& f : rank_fields) parameters.push_back({path + f.name, f.start, f.spread, f.low, f.high});
  // No operation costs less than a call on a few numbers.
  for (FitParameter& p : parameters)
    if (p.path == path + "kernel_latency") p.low = std::min(p.start, speed.call_seconds * 1e6);
  LH_TRY(const SiteMeasurements found, timed_evidence(speed));
  std::vector<TimedRun> runs = found.trainings;
  runs.insert(runs.end(), found.parts.begin(), found.parts.end());
  LH_TRY(const TimeConstants before, make_time_constants(table));
  LH_CHECK(fit_constants(table, parameters, runs, {}));
  ProcessorConstants out;
  LH_TRY(const TimeConstants after, make_time_constants(table));
  for (const TimedRun& run : found.trainings)
    out.steps.push_back({run.name, run.seconds, run.predicted(before), run.predicted(after)});
  out.deviation = prediction_error(out.steps, &CalibratedRun::after).deviation;
  add_serving_lines(speed.serving, lines);
  add_rollout_lines(speed, lines);
  for (SectionLine& line : lines) {
    if (const Constant* c = table.find(path + line.name)) line.value = c->value;
    if (line.name == "spread_seen") line.value = std::max(step_spread_least, out.deviation);
    line.value = four_digits(line.value);
  }
  out.section = processor_section(key, lines, source);
  return out;
}

}  // namespace longhaul
