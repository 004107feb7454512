// A stage's `resiliency` table as the detectors take it, and whether its keys fit each other.
#pragma once

#include <vector>

#include "contracts/settings/resiliency.h"
#include "resiliency/detect/hang_timeouts.h"
#include "resiliency/detect/step_stall.h"

namespace longhaul {

HangTimeouts hang_timeouts_of(const ResiliencySettings& settings);
StepStallOptions step_stall_of(const ResiliencySettings& settings);

// All contradictions at once, each with its remedy.
std::vector<Error> judge_timeouts(const ResiliencySettings& settings);

}  // namespace longhaul
