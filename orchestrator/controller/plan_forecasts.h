// Forecasts of a plan's trainings.
#pragma once

#include <vector>

#include "autotune/search/training_forecast.h"
#include "orchestrator/controller/job_plan.h"
#include "orchestrator/controller/layout_question.h"
#include "orchestrator/site/site_config.h"
#include "orchestrator/workflow/run_plan.h"

namespace longhaul {

// One for each training, in plan order; what cannot be predicted says why. `jobs`: in plan order, or empty.
std::vector<TrainingForecast> plan_forecasts(const RunPlan& plan, const SiteConfig& site,
                                             const std::vector<JobPlan>& jobs, const PredictionBasis& basis);

}  // namespace longhaul
