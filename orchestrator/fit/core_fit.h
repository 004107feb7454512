// Whether the ranks and threads of a plan's stages have a core each on this machine. Pure.
#pragma once

#include "orchestrator/fit/fit_case.h"
#include "orchestrator/fit/fit_report.h"

namespace longhaul {

// Where jobs run on this machine: a rank of the engine computes all the time, and waits for the slowest. Programs of
// the user's own (`command`) may share cores as they like. What a node of a cluster has is judged with its job
// (job_plan.h).
void check_core_fit(const FitCase& fit, FitFindings& report);

}  // namespace longhaul
