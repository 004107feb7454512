// The run that a command line means.
#pragma once

#include <string>

#include "orchestrator/cli/options/command_line.h"
#include "orchestrator/cli/session/installation.h"

namespace longhaul {

// A path of a run, or a name or prefix below --runs-dir, else the local site's folder of runs. Errors list what is
// there. For commands that only read: the run may be anybody's, and nothing below it is written or started.
Result<std::string> asked_run(const CommandLine& line, const Installation& installation);

// The same for commands that act upon it, where this user may (state/run_access.h).
struct ActingRun {
  std::string path;
  std::string programs_dir;  // that drive it; "": the run's own. Another's run is driven by this installation's
};
Result<ActingRun> acting_run(const CommandLine& line, const Installation& installation);

// Where a command that reads a run writes what it makes, if the command line does not say: here, under this name.
// invalid_input: here is below the run.
Result<std::string> output_beside_run(const std::string& run_dir, const std::string& name);

}  // namespace longhaul
