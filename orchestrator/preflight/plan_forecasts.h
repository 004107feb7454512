// Forecasts of a plan's trainings.
#pragma once

#include <vector>

#include "autotune/search/training_forecast.h"
#include "orchestrator/forecast/layout_request.h"
#include "orchestrator/job/job_plan.h"
#include "orchestrator/site/site_config.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

// Whether a faster layout is looked for: always, or only where the one as written does not fit, which is quicker.
enum class ForecastSearch { always, where_it_does_not_fit };

// One for each training, in plan order; what cannot be predicted says why. `jobs`: in plan order, or empty. What a job
// asks for of a node's memory is what its ranks have.
std::vector<TrainingForecast> plan_forecasts(const RunPlan& plan, const SiteConfig& site,
                                             const std::vector<JobPlan>& jobs, const PredictionBasis& basis,
                                             ForecastSearch search = ForecastSearch::always);

}  // namespace longhaul
