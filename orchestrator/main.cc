// longhaul: reads a workflow and a site, plans, starts, watches, decides, reports.
#include <cstdlib>
#include <string>

#include "base/process/process.h"
#include "orchestrator/cli/session/commands.h"

namespace {

// $XDG_CACHE_HOME/longhaul, or ~/.cache/longhaul.
std::string cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache && *cache == '/') return std::string(cache) + "/longhaul";
  const char* home = std::getenv("HOME");
  return home && *home == '/' ? std::string(home) + "/.cache/longhaul" : std::string();
}

}  // namespace

int main(int argc, char** argv) {
  using namespace longhaul;
  const std::string version = "longhaul " LONGHAUL_VERSION;
  const CommandLine line = parse_command_line(argc, argv, version);
  if (line.finished) return static_cast<int>(line.exit);
  Installation installation = find_installation(own_program_path(), version);
  if (const char* path = std::getenv("LD_LIBRARY_PATH")) installation.library_path = path;
  if (const char* path = std::getenv("PATH")) installation.search_path = path;
  installation.cache_dir = cache_folder();
  return static_cast<int>(run_command(line, installation));
}
