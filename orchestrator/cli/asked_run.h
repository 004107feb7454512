// The run that a command line means.
#pragma once

#include <string>

#include "orchestrator/cli/command_line.h"
#include "orchestrator/cli/installation.h"

namespace longhaul {

// A path of a run, or a name or prefix below --runs-dir, else the local site's folder of runs. Errors list what is
// there.
Result<std::string> asked_run(const CommandLine& line, const Installation& installation);

}  // namespace longhaul
