// fork: a new run from a checkpoint of another one.
#include <cstdio>

#include "base/files/files.h"
#include "base/system/clock.h"
#include "base/text/print.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "orchestrator/cli/options/json_documents.h"
#include "orchestrator/cli/session/asked_run.h"
#include "orchestrator/cli/session/commands.h"
#include "orchestrator/cli/session/load_workflow.h"
#include "orchestrator/cli/session/own_environment.h"
#include "orchestrator/render/logs/shown_stage.h"
#include "orchestrator/runs/fork.h"
#include "orchestrator/runs/saved_state.h"

namespace longhaul {
namespace {

// What --from says, else the stage that is meant (render/logs/shown_stage.h) among those that have saved something.
Result<ForkRequest> asked_fork(const CommandLine& line, const std::string& run) {
  LH_TRY(ForkRequest request, parse_fork_from(line.from));
  request.sets = line.sets;
  request.environment = own_environment_for_jobs();
  if (!request.stage.empty()) return request;
  LH_TRY(const RunStatus status, read_run_status(run));
  std::vector<std::string> saved;
  for (const StageStatus& stage : status.stages) {
    LH_TRY(const std::vector<std::int64_t> steps, checkpoint_steps(checkpoints_folder(run, stage.id)));
    if (!steps.empty()) saved.push_back(stage.id);
  }
  const StageStatus* meant = meant_stage(status);
  LH_TRY(request.stage, meant_fork_stage(saved, line.sets, meant != nullptr ? meant->id : ""));
  return request;
}

}  // namespace

ExitCode fork_run(const CommandLine& line, const Installation& installation) {
  const auto run = acting_run(line, installation);
  if (!run.ok()) return fail(line, run.error());
  const auto request = asked_fork(line, run->path);
  if (!request.ok()) return fail(line, request.error());
  const SystemClock clock;
  const auto forked = fork_run_folder(run->path, parent_path(run->path), *request, installation.programs_dir,
                                      installation.version, clock);
  if (!forked.ok()) return fail(line, forked.error());
  const auto frozen = read_frozen_run(*forked);
  if (!frozen.ok()) return fail(line, frozen.error());
  if (line.json) {
    Value document = document_of("longhaul fork", 1);
    document.set("run", *forked);
    document.set("name", file_name(*forked));
    document.set("from", frozen->fork.text());
    print_text(stdout, to_json_pretty(document));
    return ExitCode::ok;
  }
  print(stdout, "{}\n{}\nnothing was started:\n  longhaul resume {}\n", *forked, frozen->fork.text(),
        shell_quoted(*forked));
  return ExitCode::ok;
}

}  // namespace longhaul
