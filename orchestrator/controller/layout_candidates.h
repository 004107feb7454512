// Candidates of a tune stage that has none written: what the search finds best, as trials (autotune/trials/trial.h).
#pragma once

#include "autotune/time/training_case.h"
#include "orchestrator/controller/tick.h"

namespace longhaul {

// Searches with the constants in this file, read when it is asked. Errors as read_time_constants, layout_question and
// search_layouts have them.
LayoutSearch layout_search_with(const std::string& constants_path);

// Forecasts with the constants in this file. A candidate without one, for whatever reason, is left out. Errors as
// read_time_constants has them, and where nothing of the stage can be predicted.
LayoutForecasts layout_forecasts_with(const std::string& constants_path);

// A layout as a user would write it in a stage's table: parallel = { ... }, micro_batch_size, and what of pipeline,
// recompute and optimizer differs from the defaults.
Value written_layout(const TrainingLayout& layout);

}  // namespace longhaul
