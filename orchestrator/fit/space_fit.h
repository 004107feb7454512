// Whether what a run's trainings leave on the disk fits there. Pure.
#pragma once

#include "orchestrator/fit/fit_case.h"
#include "orchestrator/fit/fit_report.h"

namespace longhaul {

// Checkpoints, milestones and models of all trainings together, against the site's paths.scratch_quota and
// scratch_inodes, or on this machine against what is free where runs lie. A training longer than paths.scratch_purge
// that keeps checkpoints for good is a warning: they are not used for so long.
void check_space_fit(const FitCase& fit, FitFindings& report);

}  // namespace longhaul
