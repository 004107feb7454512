#include "autotune/hyper/trial_history.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/text/text.h"

namespace longhaul::hyper {
namespace {

constexpr RungEnd all_ends[] = {RungEnd::running, RungEnd::done, RungEnd::diverged, RungEnd::out_of_memory,
                                RungEnd::crashed, RungEnd::hung, RungEnd::stopped,  RungEnd::lost};

// What is wrong with a written result; "" if it was read.
std::string read_result(const Value& written, RungResult& result) {
  const Value *const rung = written.find("rung"), *const metric = written.find("metric"),
                     *const steps = written.find("steps");
  if (!rung || !rung->is_integer() || rung->as_integer() < 0 || rung->as_integer() > 100) return "has no rung";
  result.rung = static_cast<int>(rung->as_integer());
  const std::string end = written.get_string("end");
  const auto found = rung_end_of(end);
  if (!found) return format("has the unknown end \"{}\"", end);
  result.end = *found;
  if (steps && (!steps->is_integer() || steps->as_integer() < 0)) return "has steps that are no count";
  result.steps = steps ? steps->as_integer() : 0;
  if (result.end == RungEnd::running && result.steps > 0) return "runs and has steps already";
  if (result.end != RungEnd::done) return "";
  if (!metric) return "is done without a metric";
  // Infinities and NaN become null in JSON: a training that ended so has diverged.
  if (metric->is_null() || (metric->is_number() && !std::isfinite(metric->as_number()))) {
    result.end = RungEnd::diverged;
    return "";
  }
  if (!metric->is_number()) return "is done with a metric that is no number";
  result.metric = metric->as_number();
  return "";
}

// The order that starts have: a rung after the one below it was done, nothing after an end that is final.
bool follows(const std::vector<RungResult>& earlier, const RungResult& next) {
  if (earlier.empty()) return next.rung == 0;
  const RungResult& last = earlier.back();
  if (last.end == RungEnd::done) return next.rung == last.rung + 1;
  return last.end == RungEnd::lost && next.rung == last.rung;
}

}  // namespace

const char* to_string(RungEnd end) {
  switch (end) {
    case RungEnd::running: return "running";
    case RungEnd::done: return "done";
    case RungEnd::diverged: return "diverged";
    case RungEnd::out_of_memory: return "out_of_memory";
    case RungEnd::crashed: return "crashed";
    case RungEnd::hung: return "hung";
    case RungEnd::stopped: return "stopped";
    case RungEnd::lost: return "lost";
  }
  return "?";
}

std::string trial_name(int index) {
  return format("t{:04}", index);
}

std::optional<RungEnd> rung_end_of(const std::string& text) {
  for (const RungEnd end : all_ends)
    if (text == to_string(end)) return end;
  return std::nullopt;
}

int trial_index(const std::string& name) {
  int index = -1;
  if (name.size() != 5 || name[0] != 't') return -1;
  const auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), index);
  return error == std::errc() && end == name.data() + name.size() && index >= 0 ? index : -1;
}

Value history_to_value(const std::vector<Trial>& history) {
  Value trials = Value::make_array();
  for (const Trial& trial : history) {
    Value results = Value::make_array();
    for (const RungResult& r : trial.results) {
      Value entry = Value::make_table();
      entry.set("rung", r.rung);
      entry.set("end", to_string(r.end));
      if (r.end == RungEnd::done) entry.set("metric", r.metric);
      entry.set("steps", r.steps);
      results.push_back(std::move(entry));
    }
    Value entry = Value::make_table();
    entry.set("name", trial.name);
    entry.set("settings", trial.settings);
    entry.set("results", std::move(results));
    trials.push_back(std::move(entry));
  }
  Value value = Value::make_table();
  value.set("trials", std::move(trials));
  return value;
}

Result<std::vector<Trial>> history_from_value(const Value& value, std::vector<std::string>& set_aside) {
  const Value* const trials = value.find("trials");
  if (!trials || !trials->is_array()) return make_error(ErrorCode::corrupt, "history of trials: no list \"trials\"");
  std::vector<Trial> history;
  for (std::size_t i = 0; i < trials->size(); ++i) {
    const Value& written = trials->as_array()[i];
    Trial trial;
    trial.name = written.get_string("name");
    if (trial_index(trial.name) < 0) {
      set_aside.push_back(format("trial number {} of the list: no name like {}", i + 1, trial_name(7)));
      continue;
    }
    const Value *const settings = written.find("settings"), *const results = written.find("results");
    if (!settings || !settings->is_table()) {
      set_aside.push_back(trial.name + ": no settings");
      continue;
    }
    if (std::ranges::find(history, trial.name, &Trial::name) != history.end()) {
      set_aside.push_back(trial.name + ": is there twice");
      continue;
    }
    trial.settings = *settings;
    for (std::size_t k = 0; results && results->is_array() && k < results->size(); ++k) {
      RungResult result;
      std::string wrong = read_result(results->as_array()[k], result);
      if (wrong.empty() && !follows(trial.results, result)) wrong = "does not follow the one before";
      if (wrong.empty())
        trial.results.push_back(result);
      else
        set_aside.push_back(format("{}: result {} {}", trial.name, k + 1, wrong));
    }
    history.push_back(std::move(trial));
  }
  std::ranges::sort(history, {}, &Trial::name);
  return history;
}

}  // namespace longhaul::hyper
