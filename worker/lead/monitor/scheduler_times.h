// What of slurm.conf concerns a job while it runs: two times that its own timeouts have to fit, and the ports that its
// nodes reach each other by (scontrol(1), show config).
#pragma once

#include <cstdint>
#include <string>

#include "base/error/result.h"
#include "contracts/settings/job/port_range.h"

namespace longhaul {

struct SchedulerTimes {
  double kill_wait_s = 0;       // KillWait: from Slurm's SIGTERM to its SIGKILL; 0: not said
  double slurmd_timeout_s = 0;  // SlurmdTimeout: a silent node is down; 0: not said, or never
  PortRange srun_ports = {};    // SrunPortRange: what a firewall lets through for srun; any(): not said
};

// unavailable: no answer within `deadline_ms`.
Result<SchedulerTimes> scheduler_times(std::int64_t deadline_ms = 5'000);
// Of what `scontrol show config` prints; what is missing or no number of seconds is 0.
SchedulerTimes parse_scheduler_times(const std::string& text);

}  // namespace longhaul
