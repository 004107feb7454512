#include "orchestrator/cli/session/installation.h"

#include "base/files/files.h"

namespace longhaul {

std::vector<std::string> Installation::site_folders() const {
  std::vector<std::string> folders = {"site-configs"};
  if (!shared_dir.empty()) folders.push_back(join_path(shared_dir, "site-configs"));
  return folders;
}

std::string Installation::constants_path() const {
  return join_path(shared_dir, "autotune/constants.toml");
}

std::vector<std::string> Installation::recipe_folders(const std::string& workflow_folder) const {
  std::vector<std::string> folders = {join_path(workflow_folder, "recipes")};
  if (!shared_dir.empty()) folders.push_back(join_path(shared_dir, "workflows/recipes"));
  if (folders.back() == folders.front()) folders.resize(1);
  return folders;
}

Installation find_installation(const std::string& program_path, const std::string& version) {
  Installation installation;
  installation.programs_dir = parent_path(program_path);
  installation.version = version;
  std::string folder = installation.programs_dir;
  for (int level = 0; level < 4 && folder.size() > 1; ++level) {
    folder = parent_path(folder);
    for (const std::string& candidate : {join_path(folder, "share/longhaul"), folder})
      if (installation.shared_dir.empty() && is_directory(join_path(candidate, "site-configs")))
        installation.shared_dir = candidate;
  }
  return installation;
}

}  // namespace longhaul
