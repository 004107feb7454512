#include "orchestrator/cli/session/site_constants.h"

#include <cstdio>

#include "autotune/hardware/time_constants.h"
#include "base/files/files.h"
#include "base/text/print.h"
#include "base/text/text.h"
#include "orchestrator/forecast/machine_speed.h"

namespace longhaul {

std::string site_constants_path(const Site& site) {
  if (!site.config.constants.empty()) return absolute_path(site.config.constants);
  if (site.files.empty()) return {};
  const std::string folder = parent_path(absolute_path(site.files.front()));
  return join_path(join_path(folder, "constants"), site.config.name + ".toml");
}

Result<SiteConstants> load_site_constants(const Installation& installation, const Site& site) {
  SiteConstants found;
  const std::string shipped = installation.constants_path();
  LH_TRY(const std::string text, read_file(shipped));
  LH_TRY(found.table, ConstantTable::parse(text, shipped));
  const std::string path = site_constants_path(site);
  if (path.empty() || (site.config.constants.empty() && !file_exists(path))) return found;
  LH_TRY(const std::string measured_text, read_file(path));
  LH_TRY(const ConstantTable measured, ConstantTable::parse(measured_text, path));
  LH_CHECK(found.table.take_over(measured));
  found.measured_file = path;
  return found;
}

Result<SiteConstants> load_plan_constants(const Installation& installation, const Site& site, const RunPlan& plan,
                                          const std::string& runs_dir, bool measure) {
  LH_TRY(SiteConstants found, load_site_constants(installation, site));
  const std::vector<RankUse> uses = processor_uses(plan, site.config);
  const Constant* calibrated = found.table.find(format("gpu.{}.measured", processor_key));
  const bool nothing_there = !measure && !is_directory(join_path(runs_dir, machine_folder_name));
  if (uses.empty() || nothing_there || (calibrated && calibrated->value != 0)) return found;
  MachineProbe probe = probe_with(join_path(installation.programs_dir, "longhaul-engine"));
  if (!measure)
    probe.measure = {};
  else
    probe.measure = [times = probe.measure](const RankUse& use) {
      print(stderr, "measuring this processor for forecasts, once: {}\n", use.text());
      return times(use);
    };
  MachineSpeeds speeds = machine_speeds(runs_dir, site.config, uses, found.table, probe);
  found.said = std::move(speeds.said);
  if (speeds.constants.empty()) return found;
  LH_TRY(found.table, ConstantTable::parse(found.table.to_toml() + "\n" + speeds.constants, "the constants"));
  return found;
}

}  // namespace longhaul
