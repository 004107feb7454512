#include "orchestrator/cli/site_constants.h"

#include "base/files.h"

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

}  // namespace longhaul
