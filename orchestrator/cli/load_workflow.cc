#include "orchestrator/cli/load_workflow.h"

#include <cstdio>

#include "base/files.h"

namespace longhaul {

std::string runs_folder(const CommandLine& line, const SiteConfig& site) {
  if (!line.runs_dir.empty()) return absolute_path(line.runs_dir);
  return absolute_path(site.runs.empty() ? "runs" : site.runs);
}

Result<LoadedWorkflow> load_workflow(const CommandLine& line, const Installation& installation) {
  LoadedWorkflow loaded;
  if (!file_exists(line.workflow))
    return make_error(ErrorCode::not_found, "workflow " + line.workflow + " does not exist", "name a TOML file");
  LH_TRY(loaded.text, read_file(line.workflow, 64 << 20));
  loaded.path = absolute_path(line.workflow);
  LH_TRY(loaded.site, load_site(line.site, installation.site_folders()));
  WorkflowRequest request;
  request.text = loaded.text;
  request.path = line.workflow;
  request.folder = parent_path(loaded.path);
  request.sets = line.sets;
  request.site = loaded.site.values;
  request.recipe_folders = installation.recipe_folders(request.folder);
  WorkflowOutcome outcome = plan_workflow(request, SystemFileView());
  loaded.plan = std::move(outcome.plan);
  loaded.diagnostics = std::move(outcome.diagnostics);
  return loaded;
}

ExitCode fail(const CommandLine& line, const Error& error) {
  std::fprintf(stderr, "longhaul %s: %s\n", command_spec(line.command).name.c_str(), error.message().c_str());
  return exit_code_for(error.code);
}

}  // namespace longhaul
