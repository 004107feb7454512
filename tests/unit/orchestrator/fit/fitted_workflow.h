// A workflow with all that the checks of orchestrator/fit are asked with, without a machine: recipes and site files are
// those of the project, raw inputs are taken to exist.
#pragma once

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "base/text/text.h"
#include "orchestrator/cli/session/load_workflow.h"
#include "orchestrator/fit/check_fit.h"
#include "orchestrator/forecast/serving_request.h"
#include "orchestrator/job/job_plan.h"
#include "orchestrator/preflight/plan_forecasts.h"
#include "orchestrator/preflight/stage_device.h"
#include "orchestrator/workflow/planner.h"
#include "tests/support/plain_files.h"

namespace longhaul {

inline const std::string source = LONGHAUL_SOURCE_DIR;

struct FittedWorkflow {
  Site site;
  WorkflowOutcome planned;
  Diagnostics of_jobs;
  std::vector<JobPlan> jobs;
  std::vector<TrainingForecast> forecasts;
  std::vector<ServingForecast> servers;
  FitMachine machine = {};  // a cluster's is another
  bool no_site = false;
  std::set<std::string> cached = {};

  // `sets`: as on the command line, "site.account=..." among them.
  FittedWorkflow(const std::string& text, const std::string& path, const std::string& site_name,
                 const std::vector<std::string>& sets = {}, std::int64_t machine_memory = 0) {
    static const TimeConstants constants = read_time_constants(source + "/autotune/constants.toml").value();
    std::vector<std::string> of_workflow;
    const auto of_site = site_sets(sets, &of_workflow);
    auto loaded = load_site(site_name, {source + "/site-configs"}, of_site);
    REQUIRE_MESSAGE(loaded.ok(), loaded.error().message());
    site = std::move(*loaded);
    WorkflowRequest request;
    request.text = text;
    request.path = path;
    request.folder = parent_path(path);
    request.site = site.values;
    request.sets = of_workflow;
    request.can_search_layouts = true;
    request.recipe_folders = {source + "/workflows/recipes"};
    planned = plan_workflow(request, testing::DiskFiles());
    REQUIRE_MESSAGE(planned.diagnostics.empty(), planned.diagnostics.render(""));
    EngineDevices engine;
    engine.build = [] { return EngineDevices::Build{EngineCuda::built_in, ""}; };
    engine.host_has_driver = [] { return false; };
    engine.no_gpu_here = [](int, bool) { return std::string("this host has none"); };
    std::vector<std::string> warnings;
    decide_devices(site, engine, false, planned.plan, of_jobs, warnings);
    jobs = plan_jobs(site, planned.plan, of_jobs);
    SiteConfig config = site.config;
    if (machine_memory > 0) config.node.memory.value = machine.memory = machine_memory;
    forecasts = plan_forecasts(planned.plan, config, jobs, {constants, {}}, ForecastSearch::where_it_does_not_fit);
    servers = plan_serving_forecasts(planned.plan, config, constants);
  }

  FitFindings report(const std::vector<std::string>& allowed = {}) const {
    return check_fit({site, planned.plan, planned.written, jobs, forecasts, servers, machine, no_site, cached},
                     allowed);
  }
  std::string refused(const std::vector<std::string>& allowed = {}) const {
    return report(allowed).refused().render("");
  }
};

}  // namespace longhaul
