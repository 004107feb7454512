// What the machine itself says against a plan before anything is submitted: partitions and reservations that are not
// there, more nodes or a longer wall time than they have, modules that do not load. The site file was asked before.
#pragma once

#include <vector>

#include "base/diagnostics.h"
#include "orchestrator/controller/job_plan.h"
#include "orchestrator/scheduler/slurm_port.h"

namespace longhaul {

// Pure. `jobs` in the order of the plan's stages; a problem that several stages share is told once.
void check_against_cluster(const RunPlan& plan, const std::vector<JobPlan>& jobs,
                           const std::vector<SlurmPartition>& partitions,
                           const std::vector<SlurmReservation>& reservations, Diagnostics& diagnostics);

// Asks the cluster and checks. unavailable: it does not answer now; Slurm will say it when the jobs are submitted.
Status check_with_slurm(SlurmPort& port, const RunPlan& plan, const std::vector<JobPlan>& jobs,
                        Diagnostics& diagnostics);

// Loads the modules of every job as its script will, in a shell of their own. Where this host has no `module`, or
// processors of another kind than the nodes, nothing is known, and nothing is said.
void check_modules(const Site& site, const RunPlan& plan, Diagnostics& diagnostics);

}  // namespace longhaul
