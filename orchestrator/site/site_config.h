// A site file says where runs happen: which scheduler, how many slots, where data lies. Files inherit from each other
// (`inherits = "parent"`); the nearer file wins. ${site.NAME} in a workflow names these keys.
#pragma once

#include <string>
#include <vector>

#include "base/diagnostics.h"
#include "base/value.h"
#include "contracts/field_table.h"
#include "orchestrator/notify/notify_config.h"

namespace longhaul {

struct SiteConfig {
  std::string name = "local";
  std::string description;
  std::string scheduler = "local";
  int cpu_slots = 0;      // 0: the cores of this machine
  std::string data;       // ${site.data}
  std::string runs;       // folder of runs; "": runs/ below the current folder. --runs-dir wins
  std::string artifacts;  // artifact root; "": <runs>/.artifacts
  NotifyConfig notify;    // where messages about runs go
};
const FieldTable<SiteConfig>& site_fields();

struct Site {
  SiteConfig config;
  Value values;                    // table: every key with its value, for ${site.NAME} and site.toml of a run
  std::vector<std::string> files;  // that were read, nearest first
};

// `name` is a site's name, looked up as <name>.toml in `folders`, or the path of a .toml file. "local" needs no file.
// Relative paths in a site file start at its folder. Problems come out together; a site whose scheduler this version
// cannot drive is refused here.
Result<Site> load_site(const std::string& name, const std::vector<std::string>& folders);

}  // namespace longhaul
