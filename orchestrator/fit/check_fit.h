// Room orchestrator/fit
// Whether what a plan needs is there before anything costs: memory, cores, disk, time, budget, context length.
// check_fit.h runs all checks; fit_case.h is what they are asked, fit_report.h how they answer.
// Each *_fit.h is one check; add one there and list it in check_fit.cc.
// The checks are pure and submit nothing, so this room does not know the controller.
//
// All checks of what a plan needs against what there is, before anything costs. Pure.
#pragma once

#include "orchestrator/fit/fit_case.h"
#include "orchestrator/fit/fit_report.h"

namespace longhaul {

// `allowed`: names of the checks (fit_report.h) that refuse nothing. Where nobody said the site of a workflow for
// several nodes (FitCase::no_site), only what depends on none is checked, and a note says what is not.
FitFindings check_fit(const FitCase& fit, const std::vector<std::string>& allowed);

}  // namespace longhaul
