// When the next maintenance begins that concerns a run, out of the reservations that Slurm tells of. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "orchestrator/scheduler/slurm_port.h"

namespace longhaul {

// Hosts of a list in Slurm's notation: "n[1-3,7],x" has 5.
int count_hosts(const std::string& list);

// Start of the earliest reservation for maintenance after `now_s` that takes at least half of the nodes, in seconds
// since 1970; 0: there is none. Smaller ones leave room: the scheduler places jobs around them.
std::int64_t next_maintenance_s(const std::vector<SlurmReservation>& reservations, int nodes_total, std::int64_t now_s);

}  // namespace longhaul
