// The process of a job's script: starts the lead, and waits as long as the work is led by anybody.
//
// Slurm ends a job with its script. Where agents watch the nodes, a lead that dies is followed by the standby's (or by
// nobody, if most agents are lost as well); the script has to be there until that one has written its record.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/result.h"
#include "contracts/attempt.h"
#include "worker/lead/job_surroundings.h"

namespace longhaul {

inline constexpr int lead_superseded_exit = 75;  // of a lead that another one has followed

// Runs in the main thread of its process, and passes SIGTERM and SIGUSR1 on to the lead. Returns the exit code for the
// script. A lead that died leaves `takeover_within_ms` for another one to take over.
Result<int> hold_lead(const std::vector<std::string>& lead, const Attempt& attempt, const JobSurroundings& job,
                      Clock& clock, Logger& log, std::int64_t takeover_within_ms = 60'000);

}  // namespace longhaul
