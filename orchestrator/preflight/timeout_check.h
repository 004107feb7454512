// Whether all timeouts of a stage's job fit each other: what the workflow says, what the site says, and what follows
// from the shape of the job. Asked before anything is submitted; the job's lead asks again.
#pragma once

#include <vector>

#include "base/error/diagnostics.h"
#include "orchestrator/job/job_plan.h"
#include "orchestrator/scheduler/port/slurm_port.h"
#include "resiliency/timeout_hierarchy.h"

namespace longhaul {

// Pure. Every value with the key that changes it, and the place where that was written. `slurm`: what Slurm itself
// says, null where it was not asked; it counts more than the site file.
TimeoutHierarchy job_timeouts(const Site& site, const PlannedStage& stage, const JobPlan& job,
                              const SlurmConfiguration* slurm = nullptr);

// All contradictions that somebody can mend. What nobody can is the lead's to report, when it comes to that.
void check_timeouts(const Site& site, const PlannedStage& stage, const JobPlan& job, Diagnostics& diagnostics,
                    const SlurmConfiguration* slurm = nullptr);
// Of every stage, with what Slurm says; `jobs` in the order of the plan's stages. What several stages share is said
// once.
void check_timeouts(const Site& site, const RunPlan& plan, const std::vector<JobPlan>& jobs,
                    const SlurmConfiguration& slurm, Diagnostics& diagnostics);

}  // namespace longhaul
