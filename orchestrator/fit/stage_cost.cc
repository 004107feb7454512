#include "orchestrator/fit/stage_cost.h"

#include <algorithm>

#include "contracts/settings/stages/hyper_search.h"
#include "contracts/settings/stages/tune.h"
#include "orchestrator/job/request/stage_wall.h"
#include "orchestrator/workflow/trials/trial_stage.h"

namespace longhaul {
namespace {

// Seconds after which the stage ends in any case; 0: it need not.
double limit_of(const PlannedStage& stage, const JobPlan& job) {
  if (stage.common.time_limit.value > 0) return stage.common.time_limit.value;
  return job.chain ? 0 : job.wall_s;
}

const FitTraining* training_of(const std::vector<FitTraining>& trainings, const PlannedStage& stage) {
  const auto found = std::ranges::find_if(trainings, [&](const FitTraining& t) { return &t.stage == &stage; });
  return found == trainings.end() ? nullptr : &*found;
}

StageCost cost_of(const PlannedStage& stage, const JobPlan& job, const FitTraining* training) {
  StageCost cost;
  cost.stage = &stage;
  cost.nodes = stage.common.nodes_with_spares(), cost.gpus = cost.nodes * job.gpus_per_node;
  const double limit = limit_of(stage, job);
  if (stage.kind == tune_kind_name || stage.kind == search_kind_name) {
    cost.source = CostSource::trials;
    return cost;
  }
  if (training != nullptr) cost.step_low = training->step_low();
  if (training != nullptr && training->forecast.steps > 0) {
    cost.source = CostSource::forecast, cost.steps = training->forecast.steps;
    cost.low = training->low(), cost.middle = training->forecast.duration(), cost.high = training->high();
  } else if (stage.forecast_s > 0) {
    cost.source = CostSource::forecast;
    cost.low = stage.forecast_s / forecast_work_spread, cost.middle = stage.forecast_s;
    cost.high = stage.forecast_s * forecast_work_spread;
  } else if (limit > 0) {
    cost.source = CostSource::limit;
    cost.middle = cost.high = limit;
  }
  if (limit > 0) cost.low = std::min(cost.low, limit), cost.middle = std::min(cost.middle, limit);
  if (limit > 0) cost.high = std::min(cost.high, limit);
  return cost;
}

}  // namespace

std::vector<StageCost> stage_costs(const FitCase& fit) {
  std::vector<FitTraining> trainings;
  for_each_training(fit, [&](const FitTraining& t) { trainings.push_back(t); });
  std::vector<StageCost> costs;
  for (std::size_t i = 0; i < fit.plan.stages.size(); ++i) {
    const PlannedStage& stage = fit.plan.stages[i];
    if (!fit.cached.contains(stage.id())) costs.push_back(cost_of(stage, fit.jobs[i], training_of(trainings, stage)));
  }
  return costs;
}

}  // namespace longhaul
