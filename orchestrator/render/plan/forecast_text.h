// What trainings will take, as `longhaul plan` prints it.
#pragma once

#include <string>
#include <vector>

#include "autotune/search/training_forecast.h"
#include "base/value/value.h"

namespace longhaul {

// A head and a row for each training that has a forecast.
std::vector<std::vector<std::string>> forecast_rows(const std::vector<TrainingForecast>& forecasts);
// What belongs below those rows, a line each.
std::vector<std::string> forecast_remarks(const std::vector<TrainingForecast>& forecasts);
std::string forecast_text(const std::vector<TrainingForecast>& forecasts);
Value forecast_value(const std::vector<TrainingForecast>& forecasts);

}  // namespace longhaul
