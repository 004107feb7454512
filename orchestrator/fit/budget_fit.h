// Whether what a run's stages cost fits into what it may cost. Pure.
#pragma once

#include "orchestrator/fit/fit_case.h"
#include "orchestrator/fit/fit_report.h"

namespace longhaul {

// [workflow] budget in node-hours, and the site's budget_gpu_hours, against all stages together that have a forecast or
// a limit (stage_cost.h): by the quick end of the forecasts refused, by their slow end and the limits a warning. It
// says which part is forecast, which is limits, and which stages have neither, also where the budget holds all that is
// known: trials of tune and search stages are never counted and always named. A budget smaller than one step of a
// training is refused by name.
void check_budget_fit(const FitCase& fit, FitFindings& report);

}  // namespace longhaul
