// Whether the trainings of a plan fit where they are meant to run, by their forecasts. Pure.
#pragma once

#include <vector>

#include "autotune/search/training_forecast.h"
#include "base/diagnostics.h"
#include "orchestrator/workflow/run_plan.h"

namespace longhaul {

// One problem for each training whose rank needs more memory than there is, at the place of its layout, with the keys
// of the fastest layout that fits. What nobody can predict, and what a tune stage lays out later, is passed over.
void check_forecasts_fit(const RunPlan& plan, const std::vector<TrainingForecast>& forecasts, Diagnostics& diagnostics);

}  // namespace longhaul
