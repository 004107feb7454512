// The timeouts of a stage's `resiliency` table, as the detectors take them, and whether they fit each other.
#pragma once

#include <vector>

#include "contracts/settings/resiliency.h"
#include "resiliency/detect/hang_timeouts.h"

namespace longhaul {

HangTimeouts hang_timeouts_of(const ResiliencySettings& settings);

// All contradictions at once, each with its remedy.
std::vector<Error> judge_timeouts(const ResiliencySettings& settings);

}  // namespace longhaul
