// What a whole plan would cost, from the forecasts of its stages: node-hours, days, energy, each with its interval.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autotune/search/training_forecast.h"
#include "orchestrator/job/job_plan.h"
#include "orchestrator/reuse/stage_reason.h"

namespace longhaul {

// The ends of stages' own intervals are added up: what one forecast has wrong, those of the same model have wrong
// alike.
struct CostRange {
  double low = 0, expected = 0, high = 0;
  CostRange& operator+=(const CostRange& other);
};

struct PlanCost {
  CostRange node_hours;
  CostRange seconds;  // from the first stage's start to the last one's end; queues, faults and restarts left out
  std::optional<CostRange> energy_kwh;     // of the GPUs of what is predicted; nullopt: nothing runs on any
  std::vector<std::string> energy_from;    // those sources, each once
  std::vector<std::string> predicted;      // stages that are in the figures
  std::vector<std::string> by_work;        // those of them that compute on processors, by rates of one machine
  std::vector<std::string> not_predicted;  // that run as well, and are not
  double not_predicted_node_hours = 0;     // that these may take, by their time limits
  bool not_predicted_ends = true;          // false: one of them has no limit
  std::vector<std::string> trials;         // tune and search stages, whose trials' jobs are in none of these figures
};
// Pure. `jobs`: in plan order, or empty where no scheduler gives nodes. Stages that would be cached cost nothing.
PlanCost cost_of_plan(const RunPlan& plan, const std::vector<JobPlan>& jobs,
                      const std::vector<TrainingForecast>& forecasts, const std::vector<StageReason>& reasons);

std::string cost_text(const PlanCost& cost);
Value cost_value(const PlanCost& cost);

}  // namespace longhaul
