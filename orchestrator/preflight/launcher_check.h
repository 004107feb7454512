// What the Slurm of the cluster says against the way in which a plan's jobs start their ranks: its release, and the
// plugins that srun --mpi= takes. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/error/diagnostics.h"
#include "orchestrator/job/job_plan.h"
#include "orchestrator/scheduler/port/slurm_port.h"

namespace longhaul {

// A plugin that srun does not have is refused by its name, at the place of launcher.mpi. `known`: of
// ask_mpi_types(); empty: nothing is said. Jobs whose ranks call no MPI need none.
void check_mpi_types(const Site& site, const std::vector<JobPlan>& jobs, const std::vector<std::string>& known,
                     Diagnostics& diagnostics);
// A release that cannot run a job's agents beside its ranks. `jobs` in the order of the plan's stages.
void check_slurm_release(const RunPlan& plan, const std::vector<JobPlan>& jobs, const SlurmConfiguration& slurm,
                         Diagnostics& diagnostics);
// What its release and its settings mean for these jobs, a sentence each, for `plan`.
std::vector<std::string> notes_on_slurm(const std::vector<JobPlan>& jobs, const SlurmConfiguration& slurm);

}  // namespace longhaul
