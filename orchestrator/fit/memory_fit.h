// Whether the trainings and servers of a plan have the memory that they need where they are meant to run. Pure.
#pragma once

#include "orchestrator/fit/fit_case.h"
#include "orchestrator/fit/fit_report.h"

namespace longhaul {

// On GPUs by the forecast, which may be wrong by memory_deviation; on processors by the engine's own plan of each node
// (contracts/plan/memory_plan.h), against what the job asks for, what the site's nodes have, or what this machine has.
// The remedy has the keys of the fastest layout that fits, or the slots that a server may have.
inline constexpr double memory_deviation = 0.03;  // of the engine's plan from its accounts: docs/benchmarks.md
void check_memory_fit(const FitCase& fit, FitFindings& report);

}  // namespace longhaul
