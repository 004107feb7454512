// Tuning as a piece of a page: tables and drawings, for the report of a run and for what `longhaul plan` predicts.
#pragma once

#include <string>

#include "orchestrator/render/run/tuning_story.h"

namespace longhaul {

// Trials with what each showed, then what was predicted. "" where there is nothing.
std::string tuning_html(const TuningStory& story);
// Bars, front, timeline and alternatives. `story` adds what was measured; nullptr: nothing was.
std::string tuning_forecast_html(const TuningForecast& forecast, const TuningStory* story);

}  // namespace longhaul
