// What trainings will take, as `longhaul plan` prints it.
#pragma once

#include <string>
#include <vector>

#include "autotune/search/training_forecast.h"
#include "base/value.h"

namespace longhaul {

std::string forecast_text(const std::vector<TrainingForecast>& forecasts);
Value forecast_value(const std::vector<TrainingForecast>& forecasts);

}  // namespace longhaul
