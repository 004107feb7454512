#include "orchestrator/render/plan/forecast_text.h"

#include <algorithm>

#include "base/text/text.h"
#include "orchestrator/render/draw/text_table.h"
#include "orchestrator/render/report/tuning_svg.h"

namespace longhaul {
namespace {

std::string forecast_memory(const TrainingForecast& f) {
  if (f.memory == 0) return "-";
  std::string text = human_bytes(f.memory);
  if (f.memory_limit < 1e18) text += " of " + human_bytes(f.memory_limit);
  return text;
}

// The parts that are at least a fiftieth of the step, largest first.
std::string step_parts_text(const StepTime& time) {
  std::vector<std::pair<double, std::string>> parts;
  for (int part = 0; part < step_parts; ++part) {
    const double share = time.parts[static_cast<std::size_t>(part)] / time.seconds();
    if (share >= 0.02) parts.emplace_back(share, to_string(static_cast<StepPart>(part)));
  }
  std::sort(parts.rbegin(), parts.rend());
  std::vector<std::string> texts;
  for (const auto& [share, name] : parts) texts.push_back(format("{} {:.0f} %", name, 100 * share));
  return join(texts, ", ");
}

// Who draws, what a step's answers take beside its training, and what they hold.
std::string rollout_text(const RolloutForecast& r) {
  std::string who = "answers are drawn before each step";
  if (r.how == "ahead") who = "answers are drawn by a thread beside the steps";
  if (r.how == "ranks")
    who = format("answers are drawn by {} rank{} beside the steps", r.drawing_ranks, r.drawing_ranks == 1 ? "" : "s");
  std::string others;
  if (r.reward > 0) others += format(", {} for the reward model", step_seconds_text(r.reward));
  if (r.critic > 0)
    others += format(", {} for the critic's values and {} for its step", step_seconds_text(r.value),
                     step_seconds_text(r.critic));
  return format("{}: {} to train, {} to draw, {} for the reference{}, {} to hand over the weights; {} of memory {}",
                who, step_seconds_text(r.train), step_seconds_text(r.generate), step_seconds_text(r.reference), others,
                step_seconds_text(r.weights), human_bytes(r.memory),
                r.drawing_ranks > 0 ? "for a rank that draws" : "a rank beside what it trains");
}

Value rollout_value(const RolloutForecast& r) {
  Value one = Value::make_table();
  one.set("how", r.how), one.set("train_seconds", r.train);
  one.set("weights_seconds", r.weights), one.set("generate_seconds", r.generate);
  one.set("reference_seconds", r.reference);
  if (r.reward > 0) one.set("reward_seconds", r.reward);
  if (r.critic > 0) one.set("value_seconds", r.value), one.set("critic_seconds", r.critic);
  one.set("drawing_ranks", r.drawing_ranks), one.set("memory_bytes", static_cast<std::int64_t>(r.memory));
  return one;
}

}  // namespace

std::vector<std::vector<std::string>> forecast_rows(const std::vector<TrainingForecast>& forecasts) {
  std::vector<std::vector<std::string>> rows = {
      {"training", "step (95 %)", "tokens/s", "of peak", "memory", "time", "GPU-hours", "energy"}};
  for (const TrainingForecast& f : forecasts)
    if (f.problem.empty())
      rows.push_back(
          {f.stage,
           format("{} ({} to {})", step_seconds_text(f.seconds()), step_seconds_text(f.low), step_seconds_text(f.high)),
           human_count(f.tokens_per_second), format("{:.0f} %", 100 * f.utilisation), forecast_memory(f),
           f.steps > 0 ? human_duration(f.duration()) : "-",
           f.steps > 0 && f.on_gpus ? format("{:.1f}", f.gpu_hours) : "-",
           f.steps > 0 && f.on_gpus && f.energy_kwh > 0 ? format("{:.1f} kWh", f.energy_kwh) : "-"});
  return rows;
}

std::vector<std::string> forecast_remarks(const std::vector<TrainingForecast>& forecasts) {
  std::vector<std::string> lines;
  for (const TrainingForecast& f : forecasts) {
    if (!f.problem.empty()) {
      lines.push_back(format("{}: no forecast: {}", f.stage, f.problem));
      continue;
    }
    lines.push_back(format("{}: {}; {}; {}", f.stage, f.device, sentence_of(f.source), step_parts_text(f.time)));
    if (f.rollout) lines.back() += "; " + rollout_text(*f.rollout);
    for (const std::string& note : f.notes) lines.back() += "; " + note;
    if (f.steps > 0 && f.on_gpus && f.energy_kwh > 0) lines.back() += "; energy: GPUs at " + f.energy_from;
    if (f.memory > f.memory_limit)
      lines.push_back(
          format("{}: needs {} more memory per rank than there is", f.stage, human_bytes(f.memory - f.memory_limit)));
    if (f.better)
      lines.push_back(format("{}: the search finds {}: {} a step, {:.2f} times as fast", f.stage,
                             layout_text(f.better->layout), step_seconds_text(f.better->seconds()),
                             f.seconds() / f.better->seconds()));
  }
  for (const TrainingForecast& f : forecasts)
    if (f.after_loss)
      lines.push_back(format("{}: with one node less {} on {} nodes: {} a step", f.stage,
                             layout_text(f.after_loss->best.layout), f.after_loss->nodes,
                             step_seconds_text(f.after_loss->best.seconds())));
  return lines;
}

std::string forecast_text(const std::vector<TrainingForecast>& forecasts) {
  if (forecasts.empty()) return {};
  const auto rows = forecast_rows(forecasts);
  const std::string table = rows.size() > 1 ? "predicted\n\n" + text_table(rows) + "\n" : std::string();
  return table + join(forecast_remarks(forecasts), "\n") + "\n";
}

Value forecast_value(const std::vector<TrainingForecast>& forecasts) {
  Value list = Value::make_array();
  for (const TrainingForecast& f : forecasts) {
    Value& one = list.push_back(Value::make_table());
    one.set("stage", f.stage);
    if (!f.problem.empty()) {
      one.set("problem", f.problem);
      continue;
    }
    one.set("device", f.device);
    one.set("from", to_string(f.source));
    one.set("step_seconds", f.seconds());
    if (f.time.correction != 1) one.set("correction", f.time.correction);  // of constants alone, by what was measured
    one.set("step_seconds_low", f.low), one.set("step_seconds_high", f.high);
    one.set("tokens_per_second", f.tokens_per_second);
    one.set("utilisation", f.utilisation);
    one.set("memory_bytes", static_cast<std::int64_t>(f.memory));
    if (f.memory_limit < 1e18) one.set("memory_limit_bytes", static_cast<std::int64_t>(f.memory_limit));
    if (f.steps > 0) one.set("seconds", f.duration());
    if (f.steps > 0 && f.on_gpus) one.set("gpu_hours", f.gpu_hours);
    if (f.steps > 0 && f.on_gpus && f.energy_kwh > 0)
      one.set("energy_kwh", f.energy_kwh), one.set("energy_from", f.energy_from);
    if (f.checkpoint_bytes > 0) one.set("checkpoint_bytes", f.checkpoint_bytes);
    if (f.checkpoint_seconds > 0) one.set("checkpoint_seconds", f.checkpoint_seconds);
    Value& parts = one.set("parts", Value::make_table());
    for (int part = 0; part < step_parts; ++part)
      parts.set(to_string(static_cast<StepPart>(part)), f.time.parts[static_cast<std::size_t>(part)]);
    if (f.rollout) one.set("rollout", rollout_value(*f.rollout));
    if (f.better) {
      Value& better = one.set("better", Value::make_table());
      better.set("layout", layout_text(f.better->layout));
      better.set("step_seconds", f.better->seconds());
    }
    if (f.after_loss) {
      Value& after = one.set("after_loss_of_a_node", Value::make_table());
      after.set("layout", layout_text(f.after_loss->best.layout));
      after.set("nodes", f.after_loss->nodes);
      after.set("step_seconds", f.after_loss->best.seconds());
    }
    Value& notes = one.set("notes", Value::make_array());
    for (const std::string& note : f.notes) notes.push_back(note);
  }
  return list;
}

}  // namespace longhaul
