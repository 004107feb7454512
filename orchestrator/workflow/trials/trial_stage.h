// A stage with another layout: what a tune stage tries, and what a stage with parallel = "@layout" becomes when that
// has ended. Pure.
#pragma once

#include <string>
#include <vector>

#include "autotune/trials/trial.h"
#include "contracts/settings/stages/tune.h"
#include "contracts/tasks/task.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

// The stage as if `settings` had been written into its table: parallel, ranks, nodes, threads, and keys of its kind.
// `ranks_are_fixed`: a layout without `ranks` fills those of the stage; otherwise its product says how many there are.
// Its layout is known then. Everything that is wrong goes to the diagnostics, with the place where it was written.
PlannedStage stage_with(const PlannedStage& stage, const Value& settings, bool ranks_are_fixed,
                        Diagnostics& diagnostics);
// For settings of our own: one error.
Result<PlannedStage> stage_with(const PlannedStage& stage, const Value& settings);

// The stage with other settings of its kind. It keeps its layout, known or not, unless `settings` have one.
PlannedStage stage_with_settings(const PlannedStage& stage, const Value& settings, Diagnostics& diagnostics);
Result<PlannedStage> stage_with_settings(const PlannedStage& stage, const Value& settings);
// A stage whose layout or hyperparameters others have found, which are in `found`. A search stage tries its trials with
// them.
Result<PlannedStage> with_found(const PlannedStage& stage, const Value& found);

// What `trial` of a tune stage runs: a few steps of the target, laid out as the trial says, that save nothing, measure
// no held-out loss and hardly move the weights. It takes its inputs from `inputs`, and what it may ask of the scheduler
// from the tune stage. No launch is tried again within the job: the first fault is the result.
Result<PlannedStage> trial_stage(const PlannedStage& target, const PlannedStage& tune, const Trial& trial,
                                 const std::vector<TaskInput>& inputs);

// Makes of a stage one that runs as trial `name` of a tune or search stage: what it may ask of the scheduler is theirs,
// but for its layout; the first fault ends it.
void run_as_trial(const PlannedStage& tune, const std::string& name, const std::vector<TaskInput>& inputs,
                  PlannedStage& made);

// Of a candidate without a name: "tp=2,micro_batch_size=4".
std::string candidate_name(const Value& settings);
bool is_candidate_name(const std::string& name);

// The explicit candidates of a planned tune stage, in order; empty: none were written.
std::vector<Trial> written_candidates(const PlannedStage& tune);
TuneSettings tune_settings_of(const PlannedStage& tune);
// The stage that a tune stage is for, as far as trials need it; it may not be in the plan itself.
Result<PlannedStage> target_of(const PlannedStage& tune);

}  // namespace longhaul
