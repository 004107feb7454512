// What a controller asks of the tuner, as functions: who starts a controller hands them over (layout_candidates.h has
// those that search with the constants of the run).
#pragma once

#include <functional>
#include <vector>

#include "autotune/search/tuning_forecast.h"
#include "autotune/trials/trial.h"
#include "base/error/result.h"
#include "orchestrator/forecast/measured_trainings.h"

namespace longhaul {

struct PlannedStage;
struct RunPlan;
struct SiteConfig;

// Candidates for the layout of a planned stage, the best prediction first. `tune` is the stage that asks, with what it
// allows (contracts/settings/stages/tune.h); the plan says what the target begins with.
using LayoutSearch = std::function<Result<std::vector<Trial>>(const RunPlan&, const PlannedStage& tune,
                                                              const PlannedStage& target, const SiteConfig&)>;

// What arithmetic says of these candidates and of what else there is, for the report. Decides nothing.
using LayoutForecasts =
    std::function<Result<TuningForecast>(const RunPlan&, const PlannedStage& tune, const PlannedStage& target,
                                         const std::vector<Trial>& candidates, const SiteConfig&)>;

// A training as constants alone predict it, to be kept beside what it took.
using StepPrediction =
    std::function<Result<MeasuredTraining>(const RunPlan&, const PlannedStage& stage, const SiteConfig&)>;

}  // namespace longhaul
