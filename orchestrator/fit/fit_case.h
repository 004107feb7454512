// What the checks of a plan are asked: the plan with its places, the jobs, the forecasts, the machine.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "autotune/inference/serving_forecast.h"
#include "autotune/search/training_forecast.h"
#include "orchestrator/job/job_plan.h"
#include "orchestrator/site/site_config.h"
#include "orchestrator/workflow/layout/written_stages.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

// Of the machine that runs the jobs, where it is this one; 0: it is another, or nobody knows.
struct FitMachine {
  int cores = 0;
  std::int64_t memory = 0;      // bytes
  std::int64_t free_bytes = 0;  // on the file system of runs
  std::string runs;             // folder
};

struct FitCase {
  const Site& site;
  const RunPlan& plan;
  const WrittenStages& written;
  const std::vector<JobPlan>& jobs;  // in plan order
  const std::vector<TrainingForecast>& forecasts;
  const std::vector<ServingForecast>& servers;
  FitMachine machine = {};
  // Nobody said where it is to run, and it asks for more nodes than one: `site` and `machine` are not judged.
  bool no_site = false;
  std::set<std::string> cached = {};  // ids of stages whose artifacts are there: they cost nothing

  SourcePos place(const PlannedStage& stage, const std::vector<std::string>& keys) const {
    return written.place(stage, keys);
  }
};

// One training whose forecast is known, with its job; those that are cached, cannot be predicted, or are laid out by a
// tune stage later, are left out.
struct FitTraining {
  const PlannedStage& stage;
  const JobPlan& job;
  const TrainingForecast& forecast;

  double step_low() const { return forecast.low; }  // seconds
  // Of all steps, by the quick and the slow end of the interval; 0: how many there are is not known.
  double low() const { return forecast.duration() * forecast.low / forecast.seconds(); }
  double high() const { return forecast.duration() * forecast.high / forecast.seconds(); }
};
void for_each_training(const FitCase& fit, const std::function<void(const FitTraining&)>& visit);

// A duration as a user writes it, rounded up: "45s", "14min", "3h".
std::string written_duration(double seconds);

}  // namespace longhaul
