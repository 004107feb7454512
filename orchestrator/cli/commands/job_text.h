// Room orchestrator/cli/commands
// The commands of `longhaul`, one file each; session/commands.h lists them.
// job_text.h, deadlines_text.h and question_arguments.h are what several of them share; completion.h writes scripts of
// shells. A command asks the rooms below and prints: it decides nothing about a run.
//
// The jobs of a plan for people and for programs: `longhaul plan --site NAME`.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/job/job_plan.h"
#include "orchestrator/preflight/queue_estimate.h"

namespace longhaul {

// Table of jobs with wall time and GPU-hours, the site's budget, then each stage's directives with their origins.
// Variants of one stage are one line. `jobs` in the order of the plan's stages.
std::string jobs_text(const Site& site, const RunPlan& plan, const std::vector<JobPlan>& jobs);
Value jobs_value(const RunPlan& plan, const std::vector<JobPlan>& jobs);

// The script of each stage, as it would be written into a run below `runs`. On a local site it says that there are
// none.
Result<std::string> scripts_text(const Site& site, const RunPlan& plan, const std::vector<JobPlan>& jobs,
                                 const std::string& runs);

// What Slurm says of the jobs, and of what it was not asked.
std::string queue_text(const QueueEstimate& estimate, std::int64_t now_ms);
Value queue_value(const QueueEstimate& estimate);

// GPU-hours of a stage that uses all the time that it may; of a chain without an end those of one job.
double gpu_hours_at_most(const PlannedStage& stage, const JobPlan& job);

}  // namespace longhaul
