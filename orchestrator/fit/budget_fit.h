// Whether what a run's trainings cost fits into what it may cost. Pure.
#pragma once

#include "orchestrator/fit/fit_case.h"
#include "orchestrator/fit/fit_report.h"

namespace longhaul {

// [workflow] budget in node-hours, and the site's budget_gpu_hours, against all trainings together: by the quick end of
// their intervals refused, by the slow end a warning. A budget smaller than one step of a training is refused by name.
// Stages that do not train are not predicted and count nothing.
void check_budget_fit(const FitCase& fit, FitFindings& report);

}  // namespace longhaul
