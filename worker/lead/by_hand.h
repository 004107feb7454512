// `longhaul-worker lead --by-hand DIR`: a job script that a person submits again. It does the same work beside what the
// run has, in <stage>/by-hand/<job>/, so that nothing of the run is overwritten and the controller is not confused.
#pragma once

#include <string>

#include "base/error/result.h"
#include "base/system/clock.h"
#include "worker/lead/placement/allocation_info.h"

namespace longhaul {

// Makes the folder of an attempt like the one in `attempt_dir`, and returns it. Its artifact will be
// <stage>/by-hand/<job>/out.
Result<std::string> make_attempt_by_hand(const std::string& attempt_dir, const AllocationInfo& job, const Clock& clock);

}  // namespace longhaul
