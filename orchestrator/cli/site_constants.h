// Where a site's measured constants of the time model lie, and what plan, tune and every new run then use.
#pragma once

#include <string>

#include "autotune/hardware/constant_table.h"
#include "orchestrator/cli/installation.h"
#include "orchestrator/site/site_config.h"

namespace longhaul {

// As the site's key `constants` says; else constants/NAME.toml beside the site's own file. "": a site without a file
// that names none.
std::string site_constants_path(const Site& site);

struct SiteConstants {
  ConstantTable table;
  std::string measured_file;  // whose numbers it has taken over; "": the installation's alone
};
// The installation's, and over them the site's. not_found: the installation has none, or the file that the site names
// is missing; otherwise as ConstantTable reads them.
Result<SiteConstants> load_site_constants(const Installation& installation, const Site& site);

}  // namespace longhaul
