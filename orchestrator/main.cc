// longhaul: reads a workflow and a site, plans, starts, watches, decides, reports.
#include <cstdlib>
#include <string>

#include "base/process/process.h"
#include "orchestrator/cli/session/commands.h"
#include "orchestrator/cli/session/load_workflow.h"
#include "orchestrator/cli/session/user_defaults.h"

namespace {

// $XDG_CACHE_HOME/longhaul, or ~/.cache/longhaul.
std::string cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache && *cache == '/') return std::string(cache) + "/longhaul";
  const char* home = std::getenv("HOME");
  return home && *home == '/' ? std::string(home) + "/.cache/longhaul" : std::string();
}

longhaul::UserEnvironment user_environment() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return value ? std::string(value) : std::string();
  };
  longhaul::UserEnvironment user{variable("LONGHAUL_SITE"), variable("LONGHAUL_RUNS"), {}};
  const std::string config = variable("XDG_CONFIG_HOME"), home = variable("HOME");
  if (!config.empty() && config.front() == '/')
    user.config_file = config + "/longhaul.toml";
  else if (!home.empty() && home.front() == '/')
    user.config_file = home + "/.config/longhaul.toml";
  return user;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace longhaul;
  const std::string version = "longhaul " LONGHAUL_VERSION;
  CommandLine line = parse_command_line(argc, argv, version);
  if (line.finished) return static_cast<int>(line.exit);
  Installation installation = find_installation(own_program_path(), version);
  if (const char* path = std::getenv("LD_LIBRARY_PATH")) installation.library_path = path;
  if (const char* path = std::getenv("PATH")) installation.search_path = path;
  installation.cache_dir = cache_folder();
  const UserEnvironment user = user_environment();
  const auto defaults = read_user_defaults(user);
  if (!defaults.ok()) return static_cast<int>(fail(line, defaults.error()));
  apply_user_defaults(*defaults, line);
  installation.defaults_text = user_defaults_text(*defaults, user);
  return static_cast<int>(run_command(line, installation));
}
