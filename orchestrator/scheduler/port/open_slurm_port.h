// Chooses how Slurm is spoken to, once per process, and says why (`longhaul doctor`).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "orchestrator/scheduler/port/slurm_port.h"
#include "orchestrator/site/submission_times.h"

namespace longhaul {

struct OpenedSlurmPort {
  std::unique_ptr<SlurmPort> port;
  std::string backend;  // "libslurm" | "cli"
  std::string why;      // "longhaul-slurm is there and fits slurmctld 22.05.8"
  std::string filters;  // CliFilterPlugins of the cluster, where it answered
};

// `choice`: "auto", "libslurm" or "cli". `programs_dir`: where longhaul-slurm may be. "auto" takes the helper if it is
// there and fits the controller's release, else the commands if sbatch is on PATH; the commands also where the cluster
// has filters of its command line (CliFilterPlugins), which see nothing of what libslurm submits. not_found: neither is
// there. unsupported: the helper was asked for and does not fit.
// `programs`: paths of Slurm's commands, as a site has them. `deadline_ms`: of one call. `cluster`: of several the one
// that is asked; "": the one that Slurm's commands ask by themselves. `environment`: of the jobs that are submitted
// (state/submit_environment.h); empty: that of this process.
Result<OpenedSlurmPort> open_slurm_port(const std::string& choice, const std::string& programs_dir,
                                        const std::map<std::string, std::string>& programs = {},
                                        std::int64_t deadline_ms = submission_deadline_ms,
                                        const std::string& cluster = {},
                                        const std::vector<std::string>& environment = {});

}  // namespace longhaul
