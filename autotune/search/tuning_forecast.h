// What arithmetic says of the layouts that somebody has to choose from, in the form that files, tables and pictures
// keep it: each layout with the parts of its step and the costs of its pipeline, and what else the search has seen.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autotune/search/layout_search.h"
#include "autotune/time/forecast_source.h"
#include "base/value/value.h"
#include "contracts/pipeline/pipeline_timeline.h"

namespace longhaul {

// Enough to run a step's schedule again (contracts/pipeline/pipeline_timeline.h).
struct PipelineForecast {
  PipelineScheduleSettings schedule;
  PipelineCosts costs = {.stages = {}, .send = 0};  // s; of every global stage
};

struct LayoutForecast {
  std::string name;    // of the candidate, or what distinguishes the layout
  std::string layout;  // layout_text
  StepTime time;
  double memory = 0;  // bytes of the rank that holds most
  PipelineForecast pipeline;

  double seconds() const { return time.seconds(); }
};

struct FrontPoint {  // of step time against memory
  std::string layout;
  double seconds = 0, memory = 0;
};
struct AlternativeVerdict {
  std::string name, verdict;
};

struct TuningForecast {
  std::string device;                         // what the step times are of
  std::optional<ForecastSource> source = {};  // what the step times are made from; nullopt: an earlier version's
  double memory_limit = 0;                    // bytes that a rank may take; 0: not known
  std::vector<LayoutForecast> candidates;
  // Of a search; empty where there was none.
  std::vector<FrontPoint> front;
  std::vector<AlternativeVerdict> alternatives;
  std::int64_t enumerated = 0, fitting = 0, simulated = 0;

  const LayoutForecast* find(const std::string& name) const;
};

// invalid_input: a schedule that does not go.
Result<LayoutForecast> forecast_layout(const SearchRequest& question, const TrainingLayout& layout,
                                       const std::string& name);
// What the search says beside its best layouts.
void add_search(TuningForecast& forecast, const SearchOutcome& outcome);

Value tuning_forecast_to_value(const TuningForecast& forecast);
// corrupt: a part that is missing or of another kind; the error names it.
Result<TuningForecast> tuning_forecast_from_value(const Value& value, const std::string& path);

}  // namespace longhaul
