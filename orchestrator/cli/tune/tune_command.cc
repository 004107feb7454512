// tune: a stage that finds a layout or hyperparameters, with what it needs, and what it found in a form to paste.
#include <algorithm>
#include <cstdio>

#include "base/files/files.h"
#include "base/text/print.h"
#include "base/text/text.h"
#include "base/toml.h"
#include "base/value/json.h"
#include "contracts/settings/stages/hyper_search.h"
#include "orchestrator/cli/options/json_documents.h"
#include "orchestrator/cli/session/commands.h"
#include "orchestrator/cli/session/new_run.h"
#include "orchestrator/cli/session/status_document.h"
#include "orchestrator/render/plan/plan_text.h"

namespace longhaul {
namespace {

// That has not ended well: an interrupted one goes on.
std::string unfinished_run_of(const RunPlan& plan, const std::string& runs_dir) {
  const std::string newest = newest_run_of(plan, runs_dir);
  const auto status = newest.empty() ? Result<RunStatus>(RunStatus()) : read_run_status(newest);
  return status.ok() && status->state != RunState::succeeded ? newest : std::string();
}

// What can be pasted, and where it lies. The stage that was asked for is the last: it needs all others.
void print_found(const std::string& run_dir, const RunPlan& plan) {
  const auto status = read_run_status(run_dir);
  const StageStatus* stage = status.ok() && !plan.stages.empty() ? status->find(plan.stages.back().id()) : nullptr;
  if (!stage || stage->artifact.empty()) return;
  const bool is_search = stage->kind == "search";
  const std::string path = join_path(stage->artifact, is_search ? "hyperparameters.toml" : "layout.toml");
  const auto text = read_file(path);
  if (!text.ok()) return;
  const std::string below = is_search ? "\n# How they were found." : "\n# How it was found.";
  print(stdout, "\n{}\n{}: {}\n", text->substr(0, text->find(below)), is_search ? "hyperparameters" : "layout", path);
}

// The stage that is meant where nobody says it: the only tune or search stage; without one the only training. "": the
// workflow cannot be read, which loading it says.
Result<std::string> only_stage(const std::string& workflow) {
  const auto file = read_toml_file(workflow);
  const Value* stages = file.ok() ? file->find("stage") : nullptr;
  if (stages == nullptr || !stages->is_table()) return std::string();
  const auto of_kinds = [&](const std::vector<std::string>& kinds) {
    std::vector<std::string> names;
    for (const ValueMember& stage : stages->as_table())
      if (stage.value.is_table() &&
          std::find(kinds.begin(), kinds.end(), stage.value.get_string("kind")) != kinds.end())
        names.push_back(stage.key);
    return names;
  };
  std::vector<std::string> names = of_kinds({"tune", search_kind_name});
  if (names.empty()) names = of_kinds({"pretrain", "sft", "align"});
  if (names.size() == 1) return names.front();
  if (names.empty())
    return make_error(ErrorCode::invalid_input, "the workflow has no stage to tune",
                      "layouts are found for stages of the kinds pretrain, sft and align");
  return make_error(ErrorCode::invalid_input, "several stages can be tuned: " + join(names, ", "),
                    "say which one: --stage " + names.front());
}

Value planned_tune_document(const RunPlan& plan) {
  Value document = document_of("longhaul tune", tune_document_format);
  document.set("run", Value());
  if (!plan.stages.empty()) document.set("stage", plan.stages.back().id());
  document.set("plan", run_plan_to_value(plan));
  return document;
}

ExitCode tune_stage(const CommandLine& line, const Installation& installation) {
  auto loaded = load_workflow(line, installation);
  if (!loaded.ok()) return fail(line, loaded.error());
  if (!loaded->diagnostics.empty()) return refuse_input(line, loaded->diagnostics, "nothing was started");
  if (line.dry_run) {
    print_text(stdout,
               line.json ? to_json_pretty(planned_tune_document(loaded->plan)) : plan_text(loaded->plan, false));
    return ExitCode::ok;
  }
  std::string run = unfinished_run_of(loaded->plan, runs_folder(line, loaded->site.config));
  if (!run.empty()) {
    print(stderr, "going on with {}\n", file_name(run));
    if (const Status plan = load_own_fault_plan(line); !plan.ok()) return fail(line, plan.error());
    if (const Status asked = ask_to_go_on(run); !asked.ok()) return fail(line, asked.error());
  } else {
    ExitCode exit = ExitCode::ok;
    const auto made = create_checked_run(line, installation, loaded, "here", true, exit);
    if (!made) return exit;
    run = made->run_dir;
  }
  const ExitCode exit = drive_to_end(line, {run, {}});
  if (exit == ExitCode::ok && !line.json) print_found(run, loaded->plan);
  return exit;
}

}  // namespace

ExitCode tune_workflow(const CommandLine& line, const Installation& installation) {
  if (line.calibrate) return calibrate_site(line, installation);
  if (!line.stage.empty()) return tune_stage(line, installation);
  const auto stage = only_stage(line.workflow);
  if (!stage.ok()) return fail(line, stage.error());
  CommandLine asked = line;
  asked.stage = *stage;
  return tune_stage(asked, installation);
}

}  // namespace longhaul
