// The arguments before a rank's program, as the lead starts it.
#pragma once

#include <string>
#include <vector>

#include "base/error/result.h"
#include "contracts/tasks/stage_kinds.h"
#include "orchestrator/job/container_mounts.h"
#include "orchestrator/site/site_config.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

struct JobPlan;

// Whether the ranks of a stage start MPI. Those of the engine that talk by NCCL do not
// (engine/tasks/commands/command_line.cc): who they are says Slurm, and the plugin of a site's MPI is one thing less
// that can fail. Of a user's program nobody knows: it may.
bool calls_mpi(const PlannedStage& stage);

// `srun` or `mpirun` for all ranks of a job that is one program. `no_kill`: srun's step outlives the loss of a node, as
// its job does; an mpirun ends with any node, and the ranks are started again by another one.
std::vector<std::string> rank_launcher(const JobPlan& plan, const SiteConfig& site, bool no_kill);

// The container's arguments (contracts/records/attempt.h): options of srun (pyxis, cscs-edf), or a program of their
// own.
std::vector<std::string> container_arguments(const SiteConfig& site, const std::string& image,
                                             const std::vector<std::string>& mounts, bool with_gpus);
bool srun_starts_container(const std::string& runtime);

// What the run itself needs in the plan's container, if it has one, beside what its user mounts. invalid_input: a
// folder that no mount can name.
Status mount_own_folders(JobPlan& plan, const SiteConfig& site, const OwnFolders& own);
// Of cscs-edf, whose file alone says what is mounted: invalid_input where one of these folders, or the node's shared
// memory, is not. A file that cannot be judged from here is believed.
Status check_environment_file(const std::string& path, std::vector<std::string> needed);

}  // namespace longhaul
