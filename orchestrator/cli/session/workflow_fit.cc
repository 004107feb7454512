#include "orchestrator/cli/session/workflow_fit.h"

#include <unistd.h>

#include <algorithm>

#include "base/files/files.h"
#include "base/text/print.h"
#include "orchestrator/cli/session/site_constants.h"
#include "orchestrator/forecast/layout_request.h"
#include "orchestrator/forecast/serving_request.h"
#include "orchestrator/preflight/plan_forecasts.h"
#include "orchestrator/reuse/reuse_outline.h"
#include "orchestrator/scheduler/local_scheduler.h"

namespace longhaul {
namespace {

std::int64_t machine_memory() {
  return static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
}

// On the file system of a folder that may not be there yet; 0: nobody knows.
std::int64_t free_where(std::string folder) {
  while (!is_directory(folder) && folder.size() > 1) folder = parent_path(folder);
  const auto free = free_bytes(folder);
  return free.ok() ? static_cast<std::int64_t>(*free) : 0;
}

FitMachine machine_of(const CommandLine& line, const SiteConfig& site) {
  FitMachine machine;
  if (site.is_slurm()) return machine;  // its nodes are others
  machine.cores = site.cpu_slots > 0 ? site.cpu_slots : usable_cores();
  machine.memory = machine_memory();
  machine.runs = runs_folder(line, site);
  machine.free_bytes = free_where(machine.runs);
  return machine;
}

std::set<std::string> cached_stages(const CommandLine& line, const LoadedWorkflow& loaded) {
  const std::string& named = loaded.site.config.artifacts;
  const std::string root =
      named.empty() ? join_path(runs_folder(line, loaded.site.config), ".artifacts") : absolute_path(named);
  std::set<std::string> ids;
  for (const CachedStage& one : reuse_outline(loaded.plan, root, artifact_trust(loaded.site.config.group)).stages)
    ids.insert(one.stage);
  return ids;
}

struct Forecasts {
  std::vector<TrainingForecast> trainings;
  std::vector<ServingForecast> servers;
};

// Nothing where the installation has no constants: then nothing can be said.
Forecasts forecasts_of(const CommandLine& line, const Installation& installation, const LoadedWorkflow& loaded,
                       const std::vector<JobPlan>& jobs, bool measure) {
  const std::string runs = runs_folder(line, loaded.site.config);
  const auto table = load_plan_constants(installation, loaded.site, loaded.plan, runs, measure);
  const auto constants = table.ok() ? make_time_constants(table->table) : Result<TimeConstants>(table.error());
  if (!constants.ok()) return {};
  const MeasuredTrainings measured = load_measured(runs, loaded.site.config.name, table->table.to_toml());
  for (const std::string& file : measured.set_aside) print(stderr, "set aside: {}\n", file);
  const SiteConfig site = with_machine_memory(loaded.site.config);
  return {plan_forecasts(loaded.plan, site, jobs, {*constants, measured}, ForecastSearch::where_it_does_not_fit),
          plan_serving_forecasts(loaded.plan, site, *constants)};
}

// A machine that nobody has measured may be several times as fast, or as slow, as the constants have it.
bool decided_by_speed(const LoadedWorkflow& loaded, const std::vector<TrainingForecast>& trainings) {
  constexpr double unknown_factor = 10;
  const double budget_s = 3600 * loaded.plan.budget_node_hours;
  double all = 0;
  for (const TrainingForecast& f : trainings) {
    const PlannedStage* stage = loaded.plan.find(f.stage);
    if (stage == nullptr || !f.problem.empty()) continue;
    const double needed = std::max(f.duration(), f.seconds()), limit = stage->common.time_limit.value;
    all += needed * stage->common.nodes_with_spares();
    if (limit > 0 && needed * unknown_factor > limit) return true;
  }
  return budget_s > 0 && all * unknown_factor > budget_s;
}

}  // namespace

std::vector<JobPlan> stage_jobs(const LoadedWorkflow& loaded) {
  Diagnostics reported;  // by others
  return plan_jobs(loaded.site, loaded.plan, reported);
}

SiteConfig with_machine_memory(SiteConfig site) {
  if (!site.is_slurm() && site.node.memory.value == 0) site.node.memory.value = machine_memory();
  return site;
}

FitFindings workflow_fit(const CommandLine& line, const LoadedWorkflow& loaded, const std::vector<JobPlan>& jobs,
                         const std::vector<TrainingForecast>& forecasts, const std::vector<ServingForecast>& servers) {
  FitCase fit{loaded.site, loaded.plan, loaded.written, jobs, forecasts, servers, machine_of(line, loaded.site.config)};
  fit.no_site = loaded.no_site;
  FitFindings report = check_fit(fit, line.allowed);
  if (report.nothing_found()) return report;
  fit.cached = cached_stages(line, loaded);  // inputs are read for it
  return fit.cached.empty() ? report : check_fit(fit, line.allowed);
}

FitFindings workflow_fit(const CommandLine& line, const Installation& installation, const LoadedWorkflow& loaded) {
  const std::vector<JobPlan> jobs = stage_jobs(loaded);
  if (loaded.no_site) return workflow_fit(line, loaded, jobs, {}, {});
  Forecasts forecasts = forecasts_of(line, installation, loaded, jobs, false);
  if (!loaded.site.config.is_slurm() && decided_by_speed(loaded, forecasts.trainings))
    forecasts = forecasts_of(line, installation, loaded, jobs, true);
  return workflow_fit(line, loaded, jobs, forecasts.trainings, forecasts.servers);
}

}  // namespace longhaul
