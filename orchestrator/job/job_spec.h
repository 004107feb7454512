// What the scheduler is asked for: the submission that one intent makes, or all tasks of an array together. Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "orchestrator/decide/decide.h"
#include "orchestrator/job/job_plan.h"
#include "orchestrator/scheduler/scheduler.h"

namespace longhaul {

// Cores that a stage's ranks take where no scheduler gives nodes; `cores`: of the machine.
int slots_of_stage(const PlannedStage& planned, int cores);

// Of an array: holds job.sbatch and tasks.txt. `stage`: its name, or the id of one of its variants.
std::string array_folder(const std::string& run_dir, const std::string& stage, const std::string& array);

// `acts`: one, or those of one array, in the order of its tasks; `planned` is the stage of the first. `cores`: of this
// machine. Without `by_script` the scheduler starts the worker itself, and there are no arrays.
JobSpec job_spec(const std::string& run_dir, const PlannedStage& planned, std::span<const PendingAct> acts, int cores,
                 bool by_script);

// What only this attempt asks for. Each replaces the plan's directive of the same name: excluded nodes are the plan's
// and its own, the time is its own.
std::vector<Directive> attempt_directives(const LedgerAttempt& attempt, const JobPlan& plan);

}  // namespace longhaul
