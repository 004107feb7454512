// longhaul: reads a workflow and a site, plans, starts, watches, decides, reports.
#include <cstdio>
#include <string>

#include "base/process.h"
#include "orchestrator/cli/commands.h"

int main(int argc, char** argv) {
  using namespace longhaul;
  const std::string version = "longhaul " LONGHAUL_VERSION;
  const CommandLine line = parse_command_line(argc, argv, version);
  if (line.finished) return static_cast<int>(line.exit);
  return static_cast<int>(run_command(line, find_installation(own_program_path(), version)));
}
