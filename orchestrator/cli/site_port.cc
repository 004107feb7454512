#include "orchestrator/cli/site_port.h"

#include "orchestrator/scheduler/open_slurm_port.h"

namespace longhaul {

Result<std::unique_ptr<SlurmPort>> open_site_port(const std::string& backend, const Installation& installation) {
  LH_TRY(OpenedSlurmPort opened,
         open_slurm_port(backend == "libslurm" ? "helper" : backend, installation.programs_dir));
  return std::move(opened.port);
}

}  // namespace longhaul
