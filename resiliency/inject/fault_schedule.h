// Faults at random times, which the seed alone decides: pure, and the same on every machine. The gaps between two are
// exponentially distributed with the mean `every`, as those of independent faults at a constant rate are, but for a
// tenth of the mean, which always passes; name and rank are drawn with equal chance.
#pragma once

#include <vector>

#include "contracts/settings/job/faults.h"

namespace longhaul {

// In the order of their times: `after` counts from the beginning of the stage's first job. `ranks` >= 1.
std::vector<FaultRequest> scheduled_faults(const FaultSchedule& schedule, int ranks);

}  // namespace longhaul
