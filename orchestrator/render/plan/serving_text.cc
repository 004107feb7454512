#include "orchestrator/render/plan/serving_text.h"

#include <cmath>

#include "base/text/text.h"
#include "orchestrator/render/draw/text_table.h"

namespace longhaul {
namespace {

std::string milliseconds_text(double seconds) {
  return seconds < 1 ? format("{:.3g} ms", seconds * 1e3) : format("{:.3g} s", seconds);
}

std::string server_text(const ServingLayout& l) {
  return format("{} slot{}, {} weights, {} cache", l.slots, l.slots == 1 ? "" : "s", to_string(l.weights),
                to_string(l.cache));
}

Value candidate_value(const ServingTask& task, const ServingCandidate& c) {
  const ServingLayout& l = c.layout;
  Value value = Value::make_table();
  value.set("tp", l.tp), value.set("replicas", l.replicas);
  value.set("weights", to_string(l.weights)), value.set("cache", to_string(l.cache));
  value.set("slots", l.slots), value.set("chunk", l.chunk), value.set("block", l.block);
  value.set("fits", c.fits);
  if (!c.fits) return value;
  value.set("meets_targets", c.meets_targets);
  value.set("slots_fit", c.slots_fit);
  value.set("tokens_per_second", c.token_rate), value.set("tokens_per_second_of_a_gpu", c.gpu_token_rate);
  value.set("itl_seconds", c.rates.itl), value.set("itl_seconds_mean", c.rates.itl_mean);
  value.set("ttft_seconds", c.rates.ttft), value.set("ttft_seconds_mean", c.rates.ttft_mean);
  value.set("answer_seconds", c.rates.latency(task.answer_tokens));
  return value;
}

Value memory_value(const ServingMemory& m) {
  Value value = Value::make_table();
  value.set("weights", m.weights), value.set("activations", m.activations), value.set("logits", m.logits);
  value.set("program", m.base), value.set("left_free", m.reserve), value.set("cache_of_a_token", m.cache_token);
  return value;
}

}  // namespace

std::vector<std::vector<std::string>> serving_forecast_rows(const std::vector<ServingForecast>& forecasts) {
  std::vector<std::vector<std::string>> rows = {
      {"server", "model", "holds", "memory", "tokens/s (90 %)", "first token", "between tokens"}};
  for (const ServingForecast& f : forecasts) {
    if (!f.problem.empty()) continue;
    std::string memory = human_bytes(f.memory);
    if (f.memory_limit > 0) memory += " of " + human_bytes(f.memory_limit);
    const ServingRates& r = f.server.rates;
    rows.push_back(
        {f.stage, human_count(f.parameters) + " parameters", server_text(f.server.layout), memory,
         f.fits() ? format("{:.0f} ({:.0f} to {:.0f})", f.server.token_rate, f.low_rate(), f.high_rate()) : "-",
         f.fits() ? milliseconds_text(r.ttft) : "-", f.fits() ? milliseconds_text(r.itl) : "-"});
  }
  return rows;
}

std::vector<std::string> serving_forecast_remarks(const std::vector<ServingForecast>& forecasts) {
  std::vector<std::string> lines;
  for (const ServingForecast& f : forecasts) {
    if (!f.problem.empty()) {
      lines.push_back(format("{}: no forecast: {}", f.stage, f.problem));
      continue;
    }
    lines.push_back(format(
        "{}: {}; {}; all slots taken by prompts of {} and answers of {} tokens, times for {:.3g} of 100, slots of {} "
        "tokens",
        f.stage, f.device, sentence_of(f.source), f.task.prompt_tokens, f.task.answer_tokens, 100 * f.task.percentile,
        f.task.context()));
    for (const std::string& note : f.notes) lines.back() += "; " + note;
    if (f.fits()) continue;
    lines.push_back(format("{}: needs {} more memory than there is; {}", f.stage,
                           human_bytes(f.memory - f.memory_limit),
                           f.server.slots_fit > 0 ? format("slots = {} would fit", f.server.slots_fit)
                                                  : "not even one slot fits: a quantize stage before it, or a shorter "
                                                    "max_position_embeddings"));
  }
  return lines;
}

std::string serving_forecast_text(const std::vector<ServingForecast>& forecasts) {
  if (forecasts.empty()) return {};
  const auto rows = serving_forecast_rows(forecasts);
  const std::string table = rows.size() > 1 ? "servers\n\n" + text_table(rows) + "\n" : std::string();
  return table + join(serving_forecast_remarks(forecasts), "\n") + "\n";
}

Value serving_forecast_value(const std::vector<ServingForecast>& forecasts) {
  Value list = Value::make_array();
  for (const ServingForecast& f : forecasts) {
    Value& one = list.push_back(Value::make_table());
    one.set("stage", f.stage);
    if (!f.problem.empty()) {
      one.set("problem", f.problem);
      continue;
    }
    one.set("device", f.device);
    one.set("from", to_string(f.source));
    if (f.fits()) one.set("tokens_per_second_low", f.low_rate()), one.set("tokens_per_second_high", f.high_rate());
    one.set("parameters", f.parameters);
    one.set("memory_bytes", f.memory);
    if (f.memory_limit > 0) one.set("memory_limit_bytes", f.memory_limit);
    one.set("prompt_tokens", static_cast<long long>(f.task.prompt_tokens));
    one.set("answer_tokens", static_cast<long long>(f.task.answer_tokens));
    one.set("context_tokens", static_cast<long long>(f.task.context()));
    one.set("percentile", f.task.percentile);
    one.set("server", candidate_value(f.task, f.server));
    Value& notes = one.set("notes", Value::make_array());
    for (const std::string& note : f.notes) notes.push_back(note);
  }
  return list;
}

Value serving_plan_value(const ServingPlan& plan, const std::string& toml) {
  Value value = Value::make_table();
  value.set("gpus", plan.task.gpus), value.set("gpu", plan.place.cluster.gpu.key);
  value.set("percentile", plan.task.percentile);
  value.set("reason", plan.reason);
  Value& winner = value.set("winner", candidate_value(plan.task, plan.winner));
  winner.set("tokens_per_second_low", plan.low_rate()), winner.set("tokens_per_second_high", plan.high_rate());
  value.set("from", to_string(plan.source()));
  value.set("memory_bytes", memory_value(plan.winner.memory));
  Value& alternatives = value.set("why_not", Value::make_array());
  for (const ServingAlternative& a : plan.alternatives) {
    Value& entry = alternatives.push_back(candidate_value(plan.task, a.best));
    entry.set("name", a.name), entry.set("why", a.why), entry.set("allowed", a.allowed);
  }
  Value& front = value.set("front", Value::make_array());
  for (const ServingCandidate& c : plan.pareto) front.push_back(candidate_value(plan.task, c));
  Value& notes = value.set("notes", Value::make_array());
  for (const std::string& note : plan.notes) notes.push_back(note);
  value.set("considered", plan.considered), value.set("fitting", plan.fitting);
  value.set("toml", toml);
  return value;
}

}  // namespace longhaul
