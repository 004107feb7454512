// validate and plan: look at everything, start nothing.
#include <cstdio>

#include "base/files/files.h"
#include "base/system/clock.h"
#include "base/text/print.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "orchestrator/cli/commands/deadlines_text.h"
#include "orchestrator/cli/commands/job_text.h"
#include "orchestrator/cli/options/json_documents.h"
#include "orchestrator/cli/session/commands.h"
#include "orchestrator/cli/session/load_workflow.h"
#include "orchestrator/cli/session/site_constants.h"
#include "orchestrator/cli/session/workflow_fit.h"
#include "orchestrator/controller/drivers.h"
#include "orchestrator/forecast/serving_request.h"
#include "orchestrator/preflight/plan_cost.h"
#include "orchestrator/preflight/plan_forecasts.h"
#include "orchestrator/preflight/preflight.h"
#include "orchestrator/preflight/queue_estimate.h"
#include "orchestrator/render/plan/forecast_text.h"
#include "orchestrator/render/plan/plan_html.h"
#include "orchestrator/render/plan/plan_text.h"
#include "orchestrator/render/plan/serving_text.h"
#include "orchestrator/reuse/reuse_outline.h"
#include "orchestrator/scheduler/port/open_slurm_port.h"
#include "orchestrator/workflow/layout/stage_computing.h"

namespace longhaul {
namespace {

constexpr int validate_document_format = 1;

void print_json(const Value& value) {
  print_text(stdout, to_json_pretty(value));
}

// Of what may not fit.
std::vector<std::string> sentences_of(const FitFindings& fit) {
  std::vector<std::string> sentences;
  for (const Error& one : fit.warnings().errors()) sentences.push_back(one.message());
  sentences.insert(sentences.end(), fit.notes().begin(), fit.notes().end());
  return sentences;
}

// Sentences: of the plan, and of what may not fit.
Value warnings_value(const LoadedWorkflow& loaded, const FitFindings& fit) {
  Value warnings(ValueArray(loaded.warnings.begin(), loaded.warnings.end()));
  for (const std::string& one : sentences_of(fit)) warnings.push_back(one);
  return warnings;
}

constexpr const char* nothing_started = "nothing was started";

ExitCode refuse_unfit(const CommandLine& line, const FitFindings& fit) {
  if (line.json) return refuse_input(line, fit.refused(), nothing_started, sentences_of(fit));
  print_text(stderr, fit.warnings_text());
  return refuse_input(line, fit.refused(), nothing_started);
}

void print_warnings(std::FILE* file, const std::vector<std::string>& warnings) {
  for (const std::string& one : warnings) print(file, "warning: {}\n", one);
}

Value computing_value(const RunPlan& plan) {
  Value list = Value::make_array();
  for (const PlannedStage& stage : plan.stages) {
    Value& one = list.push_back(Value::make_table());
    one.set("stage", stage.id());
    set_computing(computing_of(stage), one);
  }
  return list;
}

QueueEstimate queue_estimate(Result<OpenedSlurmPort>& opened, const RunPlan& plan, const std::vector<JobPlan>& jobs,
                             const std::string& runs) {
  if (opened.ok()) return ask_queue(*opened->port, plan, jobs, absolute_path(runs));
  QueueEstimate none;
  none.problem = opened.error().message();
  return none;
}

}  // namespace

ExitCode validate_workflow(const CommandLine& line, const Installation& installation) {
  auto loaded = load_workflow(line, installation);
  if (!loaded.ok()) return fail(line, loaded.error());
  if (!loaded->diagnostics.empty()) return refuse_input(line, loaded->diagnostics, nothing_started);
  const FitFindings fit = workflow_fit(line, installation, *loaded);
  if (!fit.refused().empty()) return refuse_unfit(line, fit);
  if (line.json) {
    Value document = Value::make_table();
    document.set("file", "longhaul validate");
    document.set("format", validate_document_format);
    document.set("ok", true);
    document.set("workflow", loaded->plan.workflow);
    document.set("stages", loaded->plan.stages.size());
    document.set("errors", Value::make_array());
    document.set("warnings", warnings_value(*loaded, fit));
    print_json(document);
  } else {
    print_warnings(stderr, loaded->warnings);
    print_text(stderr, fit.warnings_text());
    const std::size_t count = loaded->plan.stages.size();
    print(stdout, "{}: valid, {} stage{}\n", line.workflow, count, count == 1 ? "" : "s");
  }
  return ExitCode::ok;
}

namespace {

constexpr int plan_document_format = 2;  // 1 had neither reasons nor cost, and was no document of its own

// Begins with what it is; the plan's own format is that of resolved.toml.
Value plan_document(const RunPlan& plan) {
  Value document = Value::make_table();
  document.set("file", "longhaul plan");
  document.set("format", plan_document_format);
  const Value planned = run_plan_to_value(plan);
  for (const ValueMember& member : planned.as_table())
    if (member.key != "format") document.as_table().push_back(member);
  return document;
}

// Why each stage is cached or runs; `caches` gets what would be taken.
std::vector<StageReason> reasons_of(const CommandLine& line, const Site& site, const RunPlan& plan,
                                    ReuseOutline& caches) {
  const std::string& named = site.config.artifacts;
  const std::string runs = runs_folder(line, site.config);
  const std::string root = named.empty() ? join_path(runs, ".artifacts") : absolute_path(named);
  return plan_reasons(plan, runs, root, artifact_trust(site.config.group), caches);
}

Value caches_value(const ReuseOutline& caches) {
  Value list = Value::make_array();
  for (const CachedStage& one : caches.stages) {
    Value entry = Value::make_table();
    entry.set("stage", one.stage);
    entry.set("artifact", one.artifact.folder);
    entry.set("owner_uid", static_cast<long long>(one.artifact.uid));
    entry.set("verified", one.artifact.verified);
    list.push_back(std::move(entry));
  }
  return list;
}

// ", from RUN"
std::string from_run_text(const std::string& artifact) {
  const std::string run = run_of_artifact(artifact);
  return run.empty() ? run : ", from " + run;
}

void print_caches(const ReuseOutline& caches) {
  if (!caches.stages.empty() || !caches.disbelieved.empty()) print_text(stdout, "\n");
  for (const CachedStage& one : caches.stages)
    print(stdout, "{}{}\n", cached_text(one.stage, one.artifact.folder, one.artifact.uid, one.artifact.verified),
          from_run_text(one.artifact.folder));
  for (const std::string& one : caches.disbelieved) print(stdout, "not taken: {}\n", one);
}

}  // namespace

ExitCode show_plan(const CommandLine& line, const Installation& installation) {
  auto loaded = load_workflow(line, installation);
  if (!loaded.ok()) return fail(line, loaded.error());
  if (!loaded->diagnostics.empty()) return refuse_input(line, loaded->diagnostics, nothing_started);
  const auto driver = choose_driver("auto", loaded->site);
  if (driver.ok()) fit_site_to_driver(driver->name, loaded->site);
  const bool asks = loaded->site.config.is_slurm() && !line.no_queue;
  Result<OpenedSlurmPort> slurm = make_error(ErrorCode::unavailable, "not asked");
  if (asks) {
    const SiteConfig& config = loaded->site.config;
    slurm = open_slurm_port(config.slurm_backend, installation.programs_dir, config.programs, submission_deadline_ms,
                            config.cluster);
    const auto partitions = slurm.ok() ? slurm->port->partitions() : Result<std::vector<SlurmPartition>>(slurm.error());
    if (partitions.ok()) take_walls_from(*partitions, loaded->site);
  }
  const Site& site = loaded->site;
  std::vector<JobPlan> jobs;
  if (site.config.is_slurm()) jobs = plan_jobs(site, loaded->plan, loaded->diagnostics);
  const QueueEstimate queue =
      asks ? queue_estimate(slurm, loaded->plan, jobs, runs_folder(line, site.config)) : QueueEstimate();
  std::vector<TrainingForecast> forecasts;
  const auto table =
      load_plan_constants(installation, site, loaded->plan, runs_folder(line, site.config), !loaded->no_site);
  const auto constants = table.ok() ? make_time_constants(table->table) : Result<TimeConstants>(table.error());
  if (constants.ok() && !loaded->no_site) {
    const auto measured = load_measured(runs_folder(line, site.config), site.config.name, table->table.to_toml());
    for (const std::string& file : measured.set_aside) print(stderr, "set aside: {}\n", file);
    forecasts = plan_forecasts(loaded->plan, with_machine_memory(site.config), jobs,
                               {*constants, measured, !table->measured_file.empty()});
  }
  std::vector<ServingForecast> servers;
  if (constants.ok() && !loaded->no_site)
    servers = plan_serving_forecasts(loaded->plan, with_machine_memory(site.config), *constants);
  const FitFindings fit = workflow_fit(line, *loaded, jobs.empty() ? stage_jobs(*loaded) : jobs, forecasts, servers);
  Diagnostics refused = fit.refused();
  if (asks && slurm.ok()) check_gpus_with_slurm(*slurm->port, site, loaded->plan, jobs, refused);
  const ExitCode exit = refused.empty() ? ExitCode::ok : ExitCode::invalid_input;
  if (!line.html.empty()) {
    const std::string page = plan_html(loaded->plan, site.config.name, forecasts, servers, SystemClock().wall_ms());
    if (const Status written = write_file_atomic(line.html, page); !written.ok()) return fail(line, written.error());
  }
  ReuseOutline caches;
  const std::vector<StageReason> reasons = reasons_of(line, site, loaded->plan, caches);
  const PlanCost cost = cost_of_plan(loaded->plan, jobs, forecasts, reasons);
  if (line.json) {
    Value document = plan_document(loaded->plan);
    document.set("reasons", reasons_value(reasons));
    document.set("cost", cost_value(cost));
    document.set("computing", computing_value(loaded->plan));
    document.set("warnings", warnings_value(*loaded, fit));
    document.set("cached", caches_value(caches));
    if (!forecasts.empty()) document.set("predicted", forecast_value(forecasts));
    if (!forecasts.empty() && !table->said.empty())
      document.set("predicted_from", Value(ValueArray(table->said.begin(), table->said.end())));
    if (!servers.empty()) document.set("servers", serving_forecast_value(servers));
    if (site.config.is_slurm()) document.set("jobs", jobs_value(loaded->plan, jobs));
    if (loaded->no_site) {
      document.set("no_site", true);
    } else {
      if (driver.ok()) document.set("driver", driver->name), document.set("driver_why", driver->why);
      document.set("deadlines", deadlines_value(site, loaded->plan, jobs));
    }
    if (asks) document.set("queue", queue_value(queue));
    document.set("ok", refused.empty());
    if (!refused.empty()) document.set("errors", errors_value(refused.errors()));
    print_json(document);
    return exit;
  }
  print_text(stdout, plan_text(loaded->plan, line.settings));
  if (!loaded->warnings.empty()) print_text(stdout, "\n");
  print_warnings(stdout, loaded->warnings);
  print_caches(caches);
  print_text(stdout, "\n" + reasons_text(reasons));
  if (!constants.ok()) print(stderr, "nothing is predicted: {}\n", constants.error().message());
  if (!forecasts.empty()) print_text(stdout, "\n" + forecast_text(forecasts));
  if (!forecasts.empty())
    for (const std::string& one : table->said) print(stdout, "{}\n", one);
  if (!forecasts.empty() && !table->measured_file.empty())
    print(stdout, "predicted with constants measured at the site: {}\n", table->measured_file);
  if (!servers.empty()) print_text(stdout, "\n" + serving_forecast_text(servers));
  if (site.config.is_slurm()) print_text(stdout, "\n" + jobs_text(site, loaded->plan, jobs));
  print_text(stdout, "\n" + cost_text(cost));
  if (loaded->no_site) {
    print_text(stdout, "forecasts, driver and deadlines are those of a site, and none was given: --site NAME\n");
  } else {
    if (driver.ok()) print_text(stdout, driver_line(*driver));
    print_text(stdout, deadlines_text(site, loaded->plan, jobs));
  }
  if (asks) print_text(stdout, "\n" + queue_text(queue, SystemClock().wall_ms()));
  if (line.scripts) {
    const std::string runs = runs_folder(line, site.config);
    const auto scripts = scripts_text(site, loaded->plan, jobs, runs);
    if (!scripts.ok()) return fail(line, scripts.error());
    print_text(stdout, *scripts);
  }
  print_text(stderr, fit.warnings_text());
  if (!refused.empty()) print(stderr, "\n{}\n", refused.render("run and submit would refuse it"));
  return exit;
}

}  // namespace longhaul
