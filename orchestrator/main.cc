// longhaul: reads a workflow and a site, plans, starts, watches, decides, reports.
#include <cstdlib>
#include <string>

#include "base/process.h"
#include "orchestrator/cli/commands.h"

int main(int argc, char** argv) {
  using namespace longhaul;
  const std::string version = "longhaul " LONGHAUL_VERSION;
  const CommandLine line = parse_command_line(argc, argv, version);
  if (line.finished) return static_cast<int>(line.exit);
  Installation installation = find_installation(own_program_path(), version);
  if (const char* path = std::getenv("LD_LIBRARY_PATH")) installation.library_path = path;
  if (const char* path = std::getenv("PATH")) installation.search_path = path;
  return static_cast<int>(run_command(line, installation));
}
