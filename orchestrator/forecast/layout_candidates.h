// Candidates of a tune stage that has none written: what the search finds best, as trials (autotune/trials/trial.h).
#pragma once

#include <string>

#include "orchestrator/forecast/layout_search.h"

namespace longhaul {

// Searches with the constants in this file and what the other one says was measured (measured_trainings.h; it need not
// be there), read when it is asked. Errors as read_time_constants, read_measured_trainings, layout_request and
// search_layouts have them.
LayoutSearch layout_search_with(const std::string& constants_path, const std::string& measured_path);

// Forecasts with the same. A candidate without one, for whatever reason, is left out. Errors as reading them has, and
// where nothing of the stage can be predicted.
LayoutForecasts layout_forecasts_with(const std::string& constants_path, const std::string& measured_path);

// As StepPrediction has it, by the constants in this file. unsupported: what LayoutRequest does not know.
StepPrediction step_prediction_with(const std::string& constants_path);

}  // namespace longhaul
