#include "autotune/search/tuning_forecast.h"

#include <algorithm>
#include <cmath>

#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr int tuning_forecast_format = 1;
constexpr double no_limit = 1e17;  // bytes; as large a limit is none

Value costs_to_value(const PipelineCosts& costs) {
  Value list = Value::make_array();
  for (const StageCosts& c : costs.stages)
    list.push_back(ValueArray{c.forward, c.backward_input, c.backward_weight, c.backward});
  return list;
}

Value layout_to_value(const LayoutForecast& one) {
  Value entry = Value::make_table();
  entry.set("name", one.name);
  entry.set("layout", one.layout);
  entry.set("seconds", one.seconds());
  entry.set("sigma", one.time.sigma);
  entry.set("memory_bytes", one.memory);
  Value& parts = entry.set("parts", Value::make_table());
  for (int part = 0; part < step_parts; ++part)
    parts.set(to_string(static_cast<StepPart>(part)), one.time.parts[static_cast<std::size_t>(part)]);
  Value& pipeline = entry.set("pipeline", Value::make_table());
  const PipelineScheduleSettings& s = one.pipeline.schedule;
  pipeline.set("schedule", to_string(s.kind));
  pipeline.set("pp", s.pp), pipeline.set("vp", s.vp), pipeline.set("group", s.group);
  pipeline.set("micro_batches", s.micro_batches);
  pipeline.set("send", one.pipeline.costs.send);
  pipeline.set("stages", costs_to_value(one.pipeline.costs));
  return entry;
}

// Reads strictly and remembers the first thing that is wrong.
class ForecastReader {
 public:
  explicit ForecastReader(const std::string& path) : path_(path) {}

  double number(const Value& table, const char* key) {
    const Value* found = table.find(key);
    if (found && found->is_number() && std::isfinite(found->as_number()) && found->as_number() >= 0)
      return found->as_number();
    wrong(format("'{}' is no number that is 0 or more", key));
    return 0;
  }
  // Up to a bound beyond which no machine is.
  int whole(const Value& table, const char* key, int least) {
    const Value* found = table.find(key);
    if (found && found->is_integer() && found->as_integer() >= least && found->as_integer() <= 10'000'000)
      return static_cast<int>(found->as_integer());
    wrong(format("'{}' is no whole number from {} on", key, least));
    return least;
  }
  std::string text(const Value& table, const char* key) {
    const Value* found = table.find(key);
    if (found && found->is_string()) return found->as_string();
    wrong(format("'{}' is no text", key));
    return {};
  }
  const ValueArray& list(const Value& table, const char* key) {
    static const ValueArray none;
    const Value* found = table.find(key);
    if (found && found->is_array()) return found->as_array();
    wrong(format("'{}' is no list", key));
    return none;
  }
  const Value& table(const Value& of, const char* key) {
    static const Value none = Value::make_table();
    const Value* found = of.find(key);
    if (found && found->is_table()) return *found;
    wrong(format("'{}' is no table", key));
    return none;
  }
  void wrong(const std::string& what) {
    if (problem_.empty()) problem_ = what;
  }
  Status status() const {
    if (problem_.empty()) return {};
    return make_error(ErrorCode::corrupt, path_ + " is not what a tune stage predicts: " + problem_,
                      "the run goes on without it; only its report lacks what stands there");
  }

 private:
  std::string path_, problem_;
};

PipelineForecast pipeline_from(const Value& table, ForecastReader& read) {
  PipelineForecast pipeline;
  PipelineScheduleSettings& s = pipeline.schedule;
  const auto kind = pipeline_kind_from(read.text(table, "schedule"));
  if (kind.ok())
    s.kind = *kind;
  else
    read.wrong(kind.error().what);
  s.pp = read.whole(table, "pp", 1), s.vp = read.whole(table, "vp", 1), s.group = read.whole(table, "group", 0);
  s.micro_batches = read.whole(table, "micro_batches", 1);
  pipeline.costs.send = read.number(table, "send");
  for (const Value& stage : read.list(table, "stages")) {
    if (!stage.is_array() || stage.size() != 4 ||
        !std::all_of(stage.as_array().begin(), stage.as_array().end(), [](const Value& v) { return v.is_number(); })) {
      read.wrong("a stage of the pipeline is not four times");
      break;
    }
    const ValueArray& c = stage.as_array();
    pipeline.costs.stages.push_back({c[0].as_number(), c[1].as_number(), c[2].as_number(), c[3].as_number()});
  }
  if (pipeline.costs.stages.size() != static_cast<std::size_t>(s.pp) * static_cast<std::size_t>(s.vp))
    read.wrong("the pipeline has costs of another number of stages");
  return pipeline;
}

LayoutForecast layout_from(const Value& entry, ForecastReader& read) {
  LayoutForecast one;
  one.name = read.text(entry, "name"), one.layout = read.text(entry, "layout");
  one.time.sigma = read.number(entry, "sigma");
  one.memory = read.number(entry, "memory_bytes");
  const Value& parts = read.table(entry, "parts");
  for (int part = 0; part < step_parts; ++part) {
    // A bubble may come out below 0 by a rounding error.
    const Value* found = parts.find(to_string(static_cast<StepPart>(part)));
    if (!found || !found->is_number() || !std::isfinite(found->as_number()))
      read.wrong(format("the part '{}' of a step is missing", to_string(static_cast<StepPart>(part))));
    else
      one.time.parts[static_cast<std::size_t>(part)] = found->as_number();
  }
  one.pipeline = pipeline_from(read.table(entry, "pipeline"), read);
  return one;
}

}  // namespace

const LayoutForecast* TuningForecast::find(const std::string& name) const {
  const auto found =
      std::find_if(candidates.begin(), candidates.end(), [&](const LayoutForecast& one) { return one.name == name; });
  return found == candidates.end() ? nullptr : &*found;
}

Result<LayoutForecast> forecast_layout(const SearchRequest& q, const TrainingLayout& layout, const std::string& name) {
  LayoutForecast one;
  one.name = name, one.layout = layout_text(layout);
  const UnitTimes units = unit_times(q.task, layout, q.place);
  LH_TRY(one.time, step_time(q.task, layout, q.place, units));
  one.memory =
      worst_stage_memory(q.memory, framework_model(q.task.shape), framework_training(q.task, layout)).memory.total();
  one.pipeline.schedule = {layout.schedule, layout.dims.pp, layout.dims.vp,
                           static_cast<int>(layout.micro_batches(q.task)), layout.group};
  one.pipeline.costs = pipeline_costs(q.task, layout, q.place, units);
  if (const auto correction = correction_of(q)) {
    one.time = corrected(one.time, correction->at(likeness_of(q.task, layout)));
    one.pipeline.costs.send *= one.time.correction;
    for (StageCosts& c : one.pipeline.costs.stages)
      for (double* cost : {&c.forward, &c.backward_input, &c.backward_weight, &c.backward})
        *cost *= one.time.correction;
  }
  return one;
}

void add_search(TuningForecast& forecast, const SearchOutcome& outcome) {
  for (const RankedLayout& ranked : outcome.pareto)
    forecast.front.push_back({layout_text(ranked.layout), ranked.seconds(), ranked.memory.total()});
  for (const Alternative& a : outcome.alternatives)
    if (a.possible) forecast.alternatives.push_back({a.name, a.verdict});
  forecast.enumerated = outcome.enumerated, forecast.fitting = outcome.fitting;
  forecast.simulated = outcome.simulated;
}

Value tuning_forecast_to_value(const TuningForecast& forecast) {
  Value value = Value::make_table();
  value.set("format", tuning_forecast_format);
  value.set("device", forecast.device);
  if (forecast.source) value.set("from", to_string(*forecast.source));
  if (forecast.memory_limit > 0 && forecast.memory_limit < no_limit)
    value.set("memory_limit_bytes", forecast.memory_limit);
  Value& candidates = value.set("candidates", Value::make_array());
  for (const LayoutForecast& one : forecast.candidates) candidates.push_back(layout_to_value(one));
  Value& front = value.set("front", Value::make_array());
  for (const FrontPoint& point : forecast.front) {
    Value& entry = front.push_back(Value::make_table());
    entry.set("layout", point.layout);
    entry.set("seconds", point.seconds), entry.set("memory_bytes", point.memory);
  }
  Value& alternatives = value.set("alternatives", Value::make_array());
  for (const AlternativeVerdict& a : forecast.alternatives) {
    Value& entry = alternatives.push_back(Value::make_table());
    entry.set("name", a.name), entry.set("verdict", a.verdict);
  }
  value.set("enumerated", static_cast<long long>(forecast.enumerated));
  value.set("fitting", static_cast<long long>(forecast.fitting));
  value.set("simulated", static_cast<long long>(forecast.simulated));
  return value;
}

Result<TuningForecast> tuning_forecast_from_value(const Value& value, const std::string& path) {
  ForecastReader read(path);
  TuningForecast forecast;
  if (value.get_integer("format") != tuning_forecast_format)
    read.wrong(format("its format is not {}", tuning_forecast_format));
  forecast.device = value.get_string("device");
  forecast.source = forecast_source_from(value.get_string("from"));
  forecast.memory_limit = value.get_number("memory_limit_bytes");
  for (const Value& entry : read.list(value, "candidates")) forecast.candidates.push_back(layout_from(entry, read));
  for (const Value& entry : read.list(value, "front"))
    forecast.front.push_back(
        {read.text(entry, "layout"), read.number(entry, "seconds"), read.number(entry, "memory_bytes")});
  for (const Value& entry : read.list(value, "alternatives"))
    forecast.alternatives.push_back({read.text(entry, "name"), read.text(entry, "verdict")});
  forecast.enumerated = value.get_integer("enumerated"), forecast.fitting = value.get_integer("fitting");
  forecast.simulated = value.get_integer("simulated");
  LH_CHECK(read.status());
  return forecast;
}

}  // namespace longhaul
