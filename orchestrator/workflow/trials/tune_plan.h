// Room orchestrator/workflow/trials
// How tune and search stages are read, and the stages that their trials run.
// tune_plan.h and search_plan.h read; trial_stage.h and search_trial.h make a stage with other settings.
// It runs no trial (orchestrator/trials) and does not know the planner, which calls it.
//
// How a tune stage is read, and what it shares with a search stage (search_plan.h): with the stage that it is for,
// whose keys its candidates have.
#pragma once

#include <string>
#include <vector>

#include "base/error/diagnostics.h"
#include "contracts/layout/parallel_dims.h"
#include "contracts/settings/job/fault_commands.h"
#include "contracts/settings/stages/tune.h"
#include "contracts/tasks/stage_kinds.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

struct TunePlanning {
  std::string stage;     // the tune stage
  const Value& written;  // its table
  std::string target;    // the stage that it is for
  const StageKind* kind;
  bool target_is_matrix = false;
  const Value& target_written;
  const Value& target_settings;
  const StageCommon& target_common;
  const ParallelDims& target_dims;
  std::vector<std::string> inputs;  // names, of the target
  bool can_search = false;
  std::string site;  // name
  const FaultCommands* fault_commands = nullptr;
  std::string target_from = {};  // the target's own "@layout"; "": its layout is written
};

// What tune and search stages have in common. False, and said: nothing can be tried of such a stage, or the tune stage
// has keys that are the target's. `finds`: "layouts", "hyperparameters".
bool check_tuned_stage(const TunePlanning& planning, const std::string& finds, Diagnostics& diagnostics);
// The keys of the target that ask the scheduler for something, with the tune stage's own over them. What is wrong was
// reported where they were written.
StageCommon common_of_trials(const TunePlanning& planning);
// The target as far as its settings go.
PlannedStage target_stage(const TunePlanning& planning);

// Completes `settings` by the candidates, each named, checked as that stage would be and with its ranks written out,
// and by what they are candidates of; and `common` by what the target asks of the scheduler. Everything that is wrong
// goes to the diagnostics, at the place of the candidate that is.
void plan_tune_stage(const TunePlanning& planning, Value& settings, StageCommon& common, Diagnostics& diagnostics);

// Adds [stage.NAME-layout], a tune stage for `wanted`, unless the workflow has one, or `wanted` is one itself. Returns
// the name of the tune stage; "" where `wanted` is "" or no stage (which is said).
std::string add_tune_stage(const std::string& wanted, Value& workflow, const std::string& path,
                           Diagnostics& diagnostics);

// Leaves of a plan one stage and what it needs.
void keep_with_needs(const std::string& stage, RunPlan& plan);

}  // namespace longhaul
