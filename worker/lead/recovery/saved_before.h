// What earlier jobs of a stage have saved, as a lead knows it before any rank says so.
#pragma once

#include <cstdint>

#include "contracts/records/attempt.h"

namespace longhaul {

// The step of the newest whole checkpoint that counts: by the record of the job right before this one (an earlier life
// of this job, or the attempt before), which may be newer than what the run's log knew when this job was submitted;
// else attempt.at_least_step. -1: none.
std::int64_t step_left_by_earlier(const Attempt& attempt, int restarts);

}  // namespace longhaul
