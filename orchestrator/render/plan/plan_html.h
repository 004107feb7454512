// What `longhaul plan` shows as a page: the stages, and what arithmetic says of trainings and servers, with drawings.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "autotune/inference/serving_forecast.h"
#include "autotune/search/training_forecast.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

std::string plan_html(const RunPlan& plan, const std::string& site, const std::vector<TrainingForecast>& trainings,
                      const std::vector<ServingForecast>& servers, std::int64_t now_ms);

}  // namespace longhaul
