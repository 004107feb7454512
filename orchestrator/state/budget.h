// What a run has used of the machine, as its log knows it: nodes times the time between a job's start and its end.
#pragma once

#include "orchestrator/state/run_ledger.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

// Of all attempts that ended and those that run at `now_ms`. Pure. Waiting in a queue costs nothing; what an attempt
// used before the scheduler restarted it within the same job is not known to the log and not counted.
double spent_node_hours(const RunLedger& ledger, const RunPlan& plan, std::int64_t now_ms);
// The same of one stage, in nodes times milliseconds; `now_ms` 0: without the attempt that runs.
double spent_node_ms(const LedgerStage& stage, const PlannedStage& planned, std::int64_t now_ms);

// The plan's budget, if it has one, is used up: nothing new may be submitted.
bool budget_spent(const RunLedger& ledger, const RunPlan& plan, std::int64_t now_ms);

}  // namespace longhaul
