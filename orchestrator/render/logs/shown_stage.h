// The stage that a person means who names none: the same rule wherever a command takes a stage.
#pragma once

#include <string>

#include "base/error/result.h"
#include "orchestrator/state/run_status.h"

namespace longhaul {

// The first of: the newest one that runs (a training before others), the one that failed first, the newest that was
// cancelled, that succeeded, that is submitted, the last that is cached. nullptr: no stage has come so far.
const StageStatus* meant_stage(const RunStatus& status);

// The stage of that name, or the one that is meant where the name is "". not_found: with the names that there are.
Result<StageStatus> asked_stage(const RunStatus& status, const std::string& name);

}  // namespace longhaul
