// The connection to a site's Slurm, for commands that ask it something themselves.
#pragma once

#include <memory>
#include <string>

#include "orchestrator/cli/installation.h"
#include "orchestrator/scheduler/slurm_port.h"

namespace longhaul {

// `backend`: slurm_backend of the site file: auto, libslurm or cli.
Result<std::unique_ptr<SlurmPort>> open_site_port(const std::string& backend, const Installation& installation);

}  // namespace longhaul
