// When the next maintenance begins that concerns a run, out of the reservations that Slurm reports. Pure.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "orchestrator/scheduler/port/slurm_port.h"
#include "orchestrator/site/site_config.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

// Hosts of a list in Slurm's notation: "n[1-3,7],x" has 5.
int count_hosts(const std::string& list);

// Start of the earliest reservation after `now_s` that takes at least half of the nodes, in seconds since 1970; 0:
// there is none. Smaller ones leave room: the scheduler places jobs around them. Not only those with the flag MAINT:
// many sites keep their maintenance free by plain reservations, and nobody else's jobs run in them either. `own`: names
// of those that the run's own jobs ask for; floating ones never begin.
std::int64_t next_maintenance_s(const std::vector<SlurmReservation>& reservations, int nodes_total, std::int64_t now_s,
                                const std::set<std::string>& own = {});

// The reservations that jobs of this plan ask for, by their stages or by the classes of the site.
std::set<std::string> own_reservations(const Site& site, const RunPlan& plan);

}  // namespace longhaul
