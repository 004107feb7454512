// What slurm.conf says that a run at this site has to live with, in sentences. Pure: from what `scontrol show config`
// and other commands print.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "contracts/records/doctor.h"

namespace longhaul {

// "Key = value" lines of `scontrol show config`, cgroup.conf's among them; keys as Slurm writes them.
std::map<std::string, std::string> slurm_settings(const std::string& show_config);

// stepmgr, JWT, clusters, preemption and its signals, filters, ports, requeues, devices held by cgroups, MPI's default.
// `clusters`: of `sacctmgr show clusters`, "" where it does not answer; `has_token`: SLURM_JWT is set in the job.
std::vector<DoctorFact> facts_of_slurm(const std::map<std::string, std::string>& settings,
                                       const std::vector<std::string>& clusters, bool has_token);

// The plugins that `srun --mpi=list` names, on either stream and in any release's layout.
std::vector<std::string> mpi_plugins(const std::string& text);

}  // namespace longhaul
