// Where a site's measured constants of the time model lie, and what plan, tune and every new run then use.
#pragma once

#include <string>

#include "autotune/hardware/constant_table.h"
#include "orchestrator/cli/session/installation.h"
#include "orchestrator/site/site_config.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

// As the site's key `constants` says; else constants/NAME.toml beside the site's own file. "": a site without a file
// that names none.
std::string site_constants_path(const Site& site);

struct SiteConstants {
  ConstantTable table;
  std::string measured_file;           // whose numbers it has taken over; "": the installation's alone
  std::vector<std::string> said = {};  // of processors: where the figures come from, a line each
};
// The installation's, and over them the site's. not_found: the installation has none, or the file that the site names
// is missing; otherwise as ConstantTable reads them.
Result<SiteConstants> load_site_constants(const Installation& installation, const Site& site);

// The same, and over them what the processor shows that the plan's trainings will run on
// (orchestrator/forecast/machine_speed.h). `measure`: now, where it was not yet. A calibration of the site's
// processors stands instead of that.
Result<SiteConstants> load_plan_constants(const Installation& installation, const Site& site, const RunPlan& plan,
                                          const std::string& runs_dir, bool measure);

}  // namespace longhaul
