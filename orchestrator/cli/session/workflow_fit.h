// Whether what a workflow needs fits where it is to run: the same answer for validate, plan, run and submit.
#pragma once

#include <vector>

#include "orchestrator/cli/options/command_line.h"
#include "orchestrator/cli/session/installation.h"
#include "orchestrator/cli/session/load_workflow.h"
#include "orchestrator/fit/check_fit.h"

namespace longhaul {

// Of a workflow without problems. Forecasts are made for it, with what was measured of this machine and of trainings
// before; where a time or a budget is near what they say, this machine is measured first, in seconds, once. A stage
// whose artifact is there already needs nothing. Prints nothing but that a measurement begins.
FitFindings workflow_fit(const CommandLine& line, const Installation& installation, const LoadedWorkflow& loaded);

// The jobs of a plan's stages, in plan order; their problems have been reported.
std::vector<JobPlan> stage_jobs(const LoadedWorkflow& loaded);

// The same answer from forecasts that were made. `jobs`: in plan order.
FitFindings workflow_fit(const CommandLine& line, const LoadedWorkflow& loaded, const std::vector<JobPlan>& jobs,
                         const std::vector<TrainingForecast>& forecasts, const std::vector<ServingForecast>& servers);

// What is known of memory where a site is this machine: then the machine's, for forecasts.
SiteConfig with_machine_memory(SiteConfig site);

}  // namespace longhaul
