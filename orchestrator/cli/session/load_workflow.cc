#include "orchestrator/cli/session/load_workflow.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "base/files/files.h"
#include "base/text/print.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "orchestrator/cli/options/json_documents.h"
#include "orchestrator/fit/fit_report.h"
#include "orchestrator/job/job_plan.h"
#include "orchestrator/job/launcher_arguments.h"
#include "orchestrator/job/request/stage_wall.h"
#include "orchestrator/preflight/sequence_lengths.h"
#include "orchestrator/preflight/stage_device.h"
#include "orchestrator/preflight/timeout_check.h"
#include "orchestrator/workflow/effect_warnings.h"
#include "orchestrator/workflow/layout/imported_model.h"
#include "orchestrator/workflow/raw_inputs.h"

namespace longhaul {
namespace {

constexpr std::size_t known_requests_max = 32;  // per kind; more only cost time

// What a stage asks of its job, but for its name: the same request is as right as the first.
bool asks_the_same(const PlannedStage& a, const PlannedStage& b) {
  const auto without_needs = [](const PlannedStage& stage) {
    return stage.asked.size() - (stage.asked.find("needs") ? 1 : 0);
  };
  if (without_needs(a) != without_needs(b) || a.device != b.device) return false;
  for (const ValueMember& member : a.asked.as_table()) {
    if (member.key == "needs") continue;
    const Value* other = b.asked.find(member.key);
    if (!other || !(*other == member.value)) return false;
  }
  return true;
}

// Whether the site takes the stages' jobs. On a local site only what a stage says about its job can be wrong.
void check_jobs(const Site& site, const RunPlan& plan, Diagnostics& diagnostics) {
  Diagnostics all;
  std::map<std::string, std::vector<const PlannedStage*>> right;  // by kind
  for (const PlannedStage& stage : plan.stages) {
    if (!site.config.is_slurm() && !stage.asked.find("job") && !stage.asked.find("resiliency")) continue;
    auto& known = right[stage.kind];
    if (std::any_of(known.begin(), known.end(), [&](const PlannedStage* one) { return asks_the_same(*one, stage); }))
      continue;
    const std::size_t before = all.size();
    const JobPlan job = plan_job(site, stage, all);
    check_timeouts(site, stage, job, all);
    if (all.size() == before && known.size() < known_requests_max) known.push_back(&stage);
  }
  std::set<std::string> seen;
  for (const Error& error : all.errors())
    if (seen.insert(error.message()).second) diagnostics.add(error);
}

// What the run's containers have to see, as far as it is known before there is a run.
void check_containers(const Site& site, const RunPlan& plan, const std::string& runs, Diagnostics& diagnostics) {
  std::set<std::string> seen;
  for (const PlannedStage& stage : plan.stages) {
    const std::string& image = stage.common.job.container;
    if (!site.config.is_slurm() || image.empty()) continue;
    OwnFolders own{runs, {}, {}, {}};
    for (const PlannedInput& input : stage.inputs)
      own.inputs.insert(own.inputs.end(), input.paths.begin(), input.paths.end());
    const auto folders = folders_for_container(own);
    Status fits = folders.ok() ? Status() : Status(folders.error());
    if (folders.ok() && site.config.container.runtime == "cscs-edf") {
      std::vector<std::string> needed = *folders;
      if (!is_directory(runs)) needed.push_back(runs);  // it is made for the first run
      fits = check_environment_file(image, needed);
    }
    if (!fits.ok() && seen.insert(fits.error().message()).second)
      diagnostics.add(stage.place_of("job.container"), fits.error().what, fits.error().hint);
  }
}

}  // namespace

std::vector<std::string> site_sets(const std::vector<std::string>& sets, std::vector<std::string>* others) {
  std::vector<std::string> of_site;
  for (const std::string& set : sets) {
    const std::string key = trim(set);
    if (starts_with(key, "site."))
      of_site.push_back(key.substr(5));
    else if (others)
      others->push_back(set);
  }
  return of_site;
}

std::string runs_folder(const CommandLine& line, const SiteConfig& site) {
  if (!line.runs_dir.empty()) return absolute_path(line.runs_dir);
  return absolute_path(site.runs.empty() ? "runs" : site.runs);
}

namespace {

bool means_no_site(const CommandLine& line, const LoadedWorkflow& loaded) {
  if (line.command != Command::validate && line.command != Command::plan) return false;
  return !line.site_given && !loaded.site.config.is_slurm() &&
         std::any_of(loaded.plan.stages.begin(), loaded.plan.stages.end(),
                     [](const PlannedStage& stage) { return stage.common.nodes > 1; });
}

}  // namespace

namespace {

// TOML files beside the one that was named: the one that may be meant, or a few of them.
std::string near_file_hint(const std::string& asked) {
  constexpr std::size_t shown_max = 5;
  const std::string given = parent_path(asked), folder = given.empty() ? "." : given;
  std::vector<std::string> names;
  if (const auto entries = list_directory(folder); entries.ok())
    for (const std::string& name : *entries)
      if (ends_with(name, ".toml")) names.push_back(name);
  const std::string asked_name = file_name(asked);
  std::string meant = nearest_word(asked_name, names);
  if (std::find(names.begin(), names.end(), asked_name + ".toml") != names.end()) meant = asked_name + ".toml";
  const bool in_folder = asked.find('/') != std::string::npos;
  if (!meant.empty()) return "did you mean " + (in_folder ? join_path(given, meant) : meant) + "?";
  if (names.empty()) return "name a TOML file; `longhaul init` writes one for what lies in a folder";
  names.resize(std::min(names.size(), shown_max));
  return "name a TOML file; there are " + join(names, ", ");
}

}  // namespace

Result<LoadedWorkflow> load_workflow(const CommandLine& line, const Installation& installation) {
  LoadedWorkflow loaded;
  if (!file_exists(line.workflow))
    return make_error(ErrorCode::not_found, "workflow " + line.workflow + " does not exist",
                      near_file_hint(line.workflow));
  if (is_directory(line.workflow))
    return make_error(ErrorCode::invalid_input, line.workflow + " is a folder, and no workflow",
                      "name the TOML file in it; where there is none, longhaul init " + shell_quoted(line.workflow) +
                          " writes one for what lies there");
  LH_TRY(loaded.text, read_file(line.workflow, 64 << 20));
  loaded.path = absolute_path(line.workflow);
  WorkflowRequest request;
  const std::vector<std::string> of_site = site_sets(line.sets, &request.sets);
  LH_TRY(loaded.site, load_site(line.site, installation.site_folders(), of_site));
  request.text = loaded.text;
  request.path = line.workflow;
  request.folder = parent_path(loaded.path);
  request.site = loaded.site.values;
  request.fault_commands = loaded.site.config.faults;
  request.recipe_folders = installation.recipe_folders(request.folder);
  if (line.command == Command::tune) request.tune = line.stage;
  request.can_search_layouts = file_exists(installation.constants_path());
  WorkflowOutcome outcome = plan_workflow(request, SystemFileView());
  loaded.plan = std::move(outcome.plan);
  loaded.written = std::move(outcome.written);
  loaded.diagnostics = std::move(outcome.diagnostics);
  if (loaded.diagnostics.empty()) {
    check_imported_models(loaded.plan, loaded.written, loaded.diagnostics);
    check_raw_inputs(loaded.plan, loaded.written, RawInputLimits(), loaded.diagnostics);
  }
  if (loaded.diagnostics.empty()) decide_sequence_lengths(loaded.written, loaded.plan, loaded.diagnostics);
  loaded.no_site = means_no_site(line, loaded);
  if (loaded.diagnostics.empty() && !loaded.no_site) {
    decide_devices(loaded.site, devices_of_engine(join_path(installation.programs_dir, "longhaul-engine")),
                   allows(line.allowed, FitSubject::device), loaded.plan, loaded.diagnostics, loaded.warnings);
    forecast_walls(
        loaded.site.config, [](const std::vector<std::string>& paths) { return bytes_on_disk(paths); }, loaded.plan);
    check_jobs(loaded.site, loaded.plan, loaded.diagnostics);
  }
  if (loaded.diagnostics.empty()) {
    const auto of_effects = effect_warnings(loaded.written, loaded.plan);
    loaded.warnings.insert(loaded.warnings.end(), of_effects.begin(), of_effects.end());
    check_containers(loaded.site, loaded.plan, runs_folder(line, loaded.site.config), loaded.diagnostics);
  }
  return loaded;
}

Error of_this_machine(Error error) {
  if (error.code == ErrorCode::not_found) error.code = ErrorCode::io;
  return error;
}

ExitCode fail_beside(const CommandLine& line, const Error& error) {
  print(stderr, "longhaul {}: {}\n", command_spec(line.command).name, error.message());
  return exit_code_for(error.code);
}

ExitCode fail(const CommandLine& line, const Error& error) {
  const ExitCode exit = exit_code_for(error.code);
  if (line.json)
    print_text(stdout, to_json_pretty(errors_document(command_spec(line.command).name, exit, std::span(&error, 1))));
  return fail_beside(line, error);
}

ExitCode refuse_input(const CommandLine& line, const Diagnostics& problems, const std::string& consequence,
                      const std::vector<std::string>& warnings) {
  constexpr ExitCode exit = ExitCode::invalid_input;
  if (line.json) {
    Value document = errors_document(command_spec(line.command).name, exit, problems.errors());
    document.set("warnings", ValueArray(warnings.begin(), warnings.end()));
    print_text(stdout, to_json_pretty(document));
  } else {
    for (const std::string& one : warnings) print(stderr, "warning: {}\n", one);
    print(stderr, "{}\n", problems.render(consequence));
  }
  return exit;
}

}  // namespace longhaul
