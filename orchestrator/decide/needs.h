// What the stages that a stage needs mean for it: wait, go on, or never.
#pragma once

#include <string>

#include "orchestrator/decide/decide.h"

namespace longhaul {

enum class Need { open, met, broken };

// `seen` null: nothing was looked at, so a milestone that is not there may still come.
Need state_of_need(const RunPlan& plan, const RunLedger& ledger, const PlannedStage& planned, const std::string& id,
                   const Observations* seen = nullptr);

// Whether one of the stages behind an input has what it takes: an artifact, or the milestone that it names.
bool has_source(const PlannedInput& input, const RunLedger& ledger);

// Why a stage can never run, "" if it still may.
std::string blocked_by(const RunPlan& plan, const RunLedger& ledger, const PlannedStage& planned,
                       const Observations& seen);

// Stages that are there for the case of a failure are not stopped by it.
bool runs_after_failure(const PlannedStage& planned, const RunLedger& ledger);

// A stage that was skipped because a training went well and yet left no such milestone: something is missing that the
// plan promised. One that was ordered to end early promised nothing.
bool lacks_milestone(const PlannedStage& planned, const RunLedger& ledger);

}  // namespace longhaul
