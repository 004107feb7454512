// What the job of a trial has left: its state in the ledger, its events, its faults.
#pragma once

#include <string>

#include "autotune/trials/trial.h"
#include "orchestrator/state/run_ledger.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

// `stage` of the run in `run_dir` as planned. Steps up to `warmup_steps` are not measured. What cannot be read of the
// events is counted in `what`; the rest stands.
TrialResult read_trial_result(const std::string& run_dir, const PlannedStage& planned, const LedgerStage& stage,
                              std::int64_t warmup_steps);

// Of an end that is no success: by the class of the fault that the lead has named ("" for none), else by the class that
// the controller gave the end, else by its text.
TrialOutcome outcome_of_fault(const std::string& lead_class, const std::string& end_class, const std::string& cause);

}  // namespace longhaul
