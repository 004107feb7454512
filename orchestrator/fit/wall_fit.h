// Whether the steps of a plan's trainings fit into the time that their jobs have. Pure.
#pragma once

#include "orchestrator/fit/fit_case.h"
#include "orchestrator/fit/fit_report.h"

namespace longhaul {

// A job has its wall time but for the part before its end in which ranks save and stop; a training that goes on in
// other jobs has its time_limit but for that part of each of them, and but for what reading a checkpoint takes in each
// that follows. Its saves count with its steps (saved_bytes.h). Refused is what the quick end of the forecast's
// interval does not fit into; a warning is what the slow end does not. One step has to fit into one job in any case,
// and one checkpoint, at the site's rates, into the part before its end.
void check_wall_fit(const FitCase& fit, FitFindings& report);

}  // namespace longhaul
