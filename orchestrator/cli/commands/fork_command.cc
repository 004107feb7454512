// fork: a new run from a checkpoint of another one.
#include <cstdio>

#include "base/files/files.h"
#include "base/system/clock.h"
#include "base/text/print.h"
#include "base/text/text.h"
#include "orchestrator/cli/session/asked_run.h"
#include "orchestrator/cli/session/commands.h"
#include "orchestrator/cli/session/load_workflow.h"
#include "orchestrator/cli/session/own_environment.h"
#include "orchestrator/runs/fork.h"

namespace longhaul {

ExitCode fork_run(const CommandLine& line, const Installation& installation) {
  const auto run = acting_run(line, installation);
  if (!run.ok()) return fail(line, run.error());
  auto request = parse_fork_from(line.from);
  if (!request.ok()) return fail(line, request.error());
  request->sets = line.sets;
  request->environment = own_environment_for_jobs();
  const SystemClock clock;
  const auto forked = fork_run_folder(run->path, parent_path(run->path), *request, installation.programs_dir,
                                      installation.version, clock);
  if (!forked.ok()) return fail(line, forked.error());
  const auto frozen = read_frozen_run(*forked);
  if (!frozen.ok()) return fail(line, frozen.error());
  print(stdout, "{}\n{}\nnothing was started:\n  longhaul resume {}\n", *forked, frozen->fork.text(),
        shell_quoted(*forked));
  return ExitCode::ok;
}

}  // namespace longhaul
