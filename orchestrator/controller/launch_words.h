// The words before a rank's program, as the lead starts it.
#pragma once

#include <string>
#include <vector>

#include "contracts/stage_kinds.h"
#include "orchestrator/site/site_config.h"
#include "orchestrator/workflow/run_plan.h"

namespace longhaul {

struct JobPlan;

// The key that wants a job to outlive the loss of a node ("resiliency.spares"); "": none does.
std::string outlives_nodes_by(const StageCommon& common);

// Whether the ranks of a stage start MPI. Those of the engine that talk by NCCL do not (engine/tasks/command_line.cc):
// who they are says Slurm, and the plugin of a site's MPI is one thing less that can fail. Of a user's program nobody
// knows: it may.
bool calls_mpi(const PlannedStage& stage);

// `srun` or `mpirun` for all ranks of a job that is one program. `no_kill`: srun's step outlives the loss of a node, as
// its job does; an mpirun ends with any node, and the ranks are started again by another one.
std::vector<std::string> rank_launcher(const JobPlan& plan, const SiteConfig& site, bool no_kill);

// The container's words between launcher and program: options of srun (pyxis, cscs-edf), or a program of their own.
std::vector<std::string> container_words(const SiteConfig& site, const std::string& image,
                                         const std::vector<std::string>& mounts, bool with_gpus);

}  // namespace longhaul
