#include "orchestrator/preflight/plan_cost.h"

#include <algorithm>
#include <limits>
#include <map>

#include "base/text/text.h"
#include "contracts/settings/stages/hyper_search.h"
#include "contracts/settings/stages/tune.h"
#include "orchestrator/job/request/stage_wall.h"

namespace longhaul {
namespace {

constexpr double unlimited = std::numeric_limits<double>::infinity();

CostRange times(const CostRange& range, double factor) {
  return {range.low * factor, range.expected * factor, range.high * factor};
}

// Of work on processors, no longer than its time limit.
std::optional<CostRange> work_seconds(const PlannedStage& stage) {
  if (stage.forecast_s <= 0) return std::nullopt;
  const double limit = stage.common.time_limit.value > 0 ? stage.common.time_limit.value : unlimited;
  const auto at = [&](double factor) { return std::min(limit, factor * stage.forecast_s); };
  return CostRange{at(1 / forecast_work_spread), at(1), at(forecast_work_spread)};
}

// Of a training whose steps are known: the interval of a step, for all of them.
std::optional<CostRange> training_seconds(const TrainingForecast& forecast) {
  if (!forecast.problem.empty() || forecast.steps <= 0 || forecast.seconds() <= 0) return std::nullopt;
  const double expected = forecast.duration();
  const auto at = [&](double step_s) { return step_s > 0 ? expected * step_s / forecast.seconds() : expected; };
  return CostRange{at(forecast.low), expected, at(forecast.high)};
}

const TrainingForecast* forecast_among(const std::vector<TrainingForecast>& forecasts, const std::string& stage) {
  const auto found = std::ranges::find(forecasts, stage, [](const TrainingForecast& one) { return one.stage; });
  return found == forecasts.end() ? nullptr : &*found;
}

bool is_cached(const std::vector<StageReason>& reasons, const std::string& stage) {
  return std::ranges::any_of(reasons,
                             [&](const StageReason& reason) { return reason.cached && reason.stage == stage; });
}

void add_energy(const TrainingForecast& forecast, const CostRange& seconds, PlanCost& cost) {
  if (!forecast.on_gpus || forecast.energy_kwh <= 0 || forecast.energy_from.empty()) return;
  if (!cost.energy_kwh) cost.energy_kwh.emplace();
  *cost.energy_kwh += times(seconds, forecast.energy_kwh / seconds.expected);
  const std::string source = "GPUs at " + forecast.energy_from;
  if (std::ranges::find(cost.energy_from, source) == cost.energy_from.end()) cost.energy_from.push_back(source);
}

// Of a stage that nothing predicts.
void add_limit(const PlannedStage& stage, const JobPlan* job, int nodes, PlanCost& cost) {
  const double limit_s = stage.common.time_limit.value > 0 ? stage.common.time_limit.value : job ? job->wall_s : 0;
  const bool ends = limit_s > 0 && !(job && job->chain && stage.common.time_limit.value <= 0);
  cost.not_predicted_ends = cost.not_predicted_ends && ends;
  cost.not_predicted_node_hours += limit_s / 3600 * nodes;
}

std::string short_number(double value) {
  return value >= 100 ? format("{:.0f}", value) : format("{:.3g}", value);
}

std::string range_text(const CostRange& range, const std::string& unit) {
  return format("{} {} ({} to {})", short_number(range.expected), unit, short_number(range.low),
                short_number(range.high));
}

std::string time_text(const CostRange& seconds) {
  constexpr double day_s = 86'400;
  if (seconds.expected >= day_s) return range_text(times(seconds, 1 / day_s), "days");
  return format("{} ({} to {})", human_duration(seconds.expected), human_duration(seconds.low),
                human_duration(seconds.high));
}

Value range_value(const CostRange& range) {
  Value value = Value::make_table();
  value.set("low", range.low);
  value.set("expected", range.expected);
  value.set("high", range.high);
  return value;
}

Value names_value(const std::vector<std::string>& names) {
  return ValueArray(names.begin(), names.end());
}

// A line for people: --json names every one.
std::string stages_text(const std::vector<std::string>& names) {
  constexpr std::size_t named_max = 20;
  if (names.size() <= named_max) return join(names, ", ");
  return join({names.begin(), names.begin() + named_max}, ", ") + format(" and {} more", names.size() - named_max);
}

}  // namespace

CostRange& CostRange::operator+=(const CostRange& other) {
  low += other.low, expected += other.expected, high += other.high;
  return *this;
}

PlanCost cost_of_plan(const RunPlan& plan, const std::vector<JobPlan>& jobs,
                      const std::vector<TrainingForecast>& forecasts, const std::vector<StageReason>& reasons) {
  PlanCost cost;
  std::map<std::string, CostRange> ends;  // of stages, from the run's start
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const PlannedStage& stage = plan.stages[i];
    const std::string id = stage.id();
    const JobPlan* job = i < jobs.size() ? &jobs[i] : nullptr;
    const int nodes = stage.common.nodes_with_spares();  // spares are held as long
    CostRange end;
    for (const std::string& need : stage.needs) {
      const CostRange& before = ends[need];
      end = {std::max(end.low, before.low), std::max(end.expected, before.expected), std::max(end.high, before.high)};
    }
    const TrainingForecast* forecast = forecast_among(forecasts, id);
    const auto seconds = forecast ? training_seconds(*forecast) : work_seconds(stage);
    if (is_cached(reasons, id)) {
      end = {};
    } else if (stage.kind == tune_kind_name || stage.kind == search_kind_name) {
      cost.trials.push_back(id);
    } else if (seconds) {
      cost.predicted.push_back(id);
      if (!forecast) cost.by_work.push_back(id);
      cost.node_hours += times(*seconds, nodes / 3600.0);
      if (forecast) add_energy(*forecast, *seconds, cost);
      end += *seconds;
    } else {
      cost.not_predicted.push_back(id);
      add_limit(stage, job, nodes, cost);
    }
    ends[id] = end;
    cost.seconds = {std::max(cost.seconds.low, end.low), std::max(cost.seconds.expected, end.expected),
                    std::max(cost.seconds.high, end.high)};
  }
  return cost;
}

std::string cost_text(const PlanCost& cost) {
  std::string text;
  if (!cost.predicted.empty()) {
    text = format("cost of {}: {}, {} without queues and faults", stages_text(cost.predicted),
                  range_text(cost.node_hours, "node-hours"), time_text(cost.seconds));
    if (cost.energy_kwh) text += ", " + range_text(*cost.energy_kwh, "kWh") + " (" + join(cost.energy_from, "; ") + ")";
    text += "\n";
  }
  if (!cost.by_work.empty())
    text += format("{}: by rates of one machine's processors, a third to three times as long elsewhere\n",
                   stages_text(cost.by_work));
  if (!cost.trials.empty())
    text += format("not predicted: the trials of {}, whose number and length are decided on the way\n",
                   stages_text(cost.trials));
  if (cost.not_predicted.empty()) return text.empty() ? "cost: none, all is cached\n" : text;
  text +=
      format("not predicted{}: {}; ", cost.predicted.empty() ? "" : ", and not in it", stages_text(cost.not_predicted));
  if (cost.not_predicted_ends)
    text += format("at most {} node-hours by their time limits", short_number(cost.not_predicted_node_hours));
  else
    text += "a time_limit would bound what they take";
  return text + "\n";
}

Value cost_value(const PlanCost& cost) {
  constexpr double day_s = 86'400;
  const bool any = !cost.predicted.empty();
  Value value = Value::make_table();
  value.set("node_hours", any ? range_value(cost.node_hours) : Value());
  value.set("days", any ? range_value(times(cost.seconds, 1 / day_s)) : Value());
  value.set("energy_kwh", cost.energy_kwh ? range_value(*cost.energy_kwh) : Value());
  value.set("energy_from", names_value(cost.energy_from));
  value.set("predicted", names_value(cost.predicted));
  value.set("by_rates_of_one_machine", names_value(cost.by_work));
  value.set("not_predicted", names_value(cost.not_predicted));
  value.set("trials_not_predicted", names_value(cost.trials));
  value.set("not_predicted_node_hours_at_most",
            cost.not_predicted_ends ? Value(cost.not_predicted_node_hours) : Value());
  return value;
}

}  // namespace longhaul
