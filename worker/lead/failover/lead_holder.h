// The process of a job's script: starts the lead, and waits as long as the work is led by anybody.
//
// Slurm ends a job with its script. Where agents watch the nodes, a lead that dies is followed by the standby's (or by
// nobody, if most agents are lost as well); the script has to be there until that one has written its record.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error/result.h"
#include "base/process/log.h"
#include "base/system/clock.h"
#include "contracts/records/attempt.h"
#include "worker/lead/placement/allocation_info.h"

namespace longhaul {

inline constexpr int lead_superseded_exit = 75;  // of a lead that another one has followed

struct HolderPatience {
  std::int64_t takeover_ms = 60'000;  // for another lead to take over from one that died
  // Without a renewal of the lease (worker/lead/failover/leader_lease.h) of the lead that has: many times its interval,
  // for a shared file system may show another node's times a minute late.
  std::int64_t silence_ms = 300'000;
  // A lead of ours that is stopped, or waits for a disk, at two looks so far apart after the record has been written:
  // another one did its work.
  std::int64_t stopped_ms = 10'000;
};

// Runs in the main thread of its process, and passes SIGTERM and SIGUSR1 on to the lead. Returns the exit code for the
// script: 0 where the work was done, or its wall time is over.
Result<int> hold_lead(const std::vector<std::string>& lead, const Attempt& attempt, const AllocationInfo& job,
                      Clock& clock, Logger& log, const HolderPatience& patience = {});

}  // namespace longhaul
