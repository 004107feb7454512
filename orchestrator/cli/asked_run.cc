#include "orchestrator/cli/asked_run.h"

#include "orchestrator/cli/load_workflow.h"
#include "orchestrator/controller/run.h"

namespace longhaul {

Result<std::string> asked_run(const CommandLine& line, const Installation& installation) {
  LH_TRY(const Site site, load_site(line.site, installation.site_folders()));
  return find_run(runs_folder(line, site.config), line.run);
}

}  // namespace longhaul
