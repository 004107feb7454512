// Slurm's nodes as hosts for jobs. Pure.
#pragma once

#include <vector>

#include "orchestrator/scheduler/port/slurm_port.h"
#include "orchestrator/scheduler/scheduler.h"

namespace longhaul {

std::vector<HostSeen> hosts_of(const std::vector<SlurmNode>& nodes, const std::vector<SlurmPartition>& partitions);

}  // namespace longhaul
