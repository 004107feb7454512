// A stage with other hyperparameters: what a search stage tries. Pure.
#pragma once

#include <vector>

#include "autotune/hyper/halving.h"
#include "contracts/tasks/task.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

// {"optimizer.lr": 1e-3} as it is written in a stage: { optimizer = { lr = 1e-3 } }. `stands_for` has the paths of each
// params.NAME (search_params_key of a planned stage; null: there are none).
Value as_settings(const Value& configuration, const Value& stands_for);

// Of a planned search stage.
Result<hyper::Halving> halving_of(const PlannedStage& search);
Value stands_for_of(const PlannedStage& search);

// What one start of a trial runs: the tuned stage with its configuration, to the end of its rung, with a checkpoint and
// the held-out loss there. It takes its inputs from `inputs` and what it may ask of the scheduler from the search
// stage. Nothing is tried again in its run: the first fault is the result, and what was lost starts again in another
// one.
Result<PlannedStage> search_trial(const PlannedStage& search, const hyper::TrialStart& start,
                                  const std::vector<TaskInput>& inputs);

}  // namespace longhaul
