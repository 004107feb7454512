// Servers as `longhaul plan` and `longhaul serving` print them.
#pragma once

#include <string>
#include <vector>

#include "autotune/inference/serving_forecast.h"
#include "autotune/inference/serving_plan.h"
#include "base/value/value.h"

namespace longhaul {

// "" without servers.
std::string serving_forecast_text(const std::vector<ServingForecast>& forecasts);
std::vector<std::vector<std::string>> serving_forecast_rows(const std::vector<ServingForecast>& forecasts);
std::vector<std::string> serving_forecast_remarks(const std::vector<ServingForecast>& forecasts);
Value serving_forecast_value(const std::vector<ServingForecast>& forecasts);

// The answer to a question about a server, for programs; `toml` is serving_toml of it.
Value serving_plan_value(const ServingPlan& plan, const std::string& toml);

}  // namespace longhaul
