#include "orchestrator/cli/asked_run.h"

#include "base/group_access.h"
#include "orchestrator/cli/load_workflow.h"
#include "orchestrator/controller/run.h"

namespace longhaul {

Result<std::string> asked_run(const CommandLine& line, const Installation& installation) {
  LH_TRY(const Site site, load_site(line.site, installation.site_folders()));
  LH_TRY(const std::string run, find_run(runs_folder(line, site.config), line.run));
  keep_group_access(run);
  return run;
}

}  // namespace longhaul
