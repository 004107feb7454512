// Everything that a job needs lies on disk before it is submitted: task, attempt, script. Written again where it has to
// be submitted again; the same ledger gives the same files.
#pragma once

#include <span>
#include <vector>

#include "orchestrator/controller/jobs/controlled_run.h"
#include "orchestrator/scheduler/scheduler.h"

namespace longhaul {

// The acts that one submission serves: one, or all tasks of one array.
std::size_t group_size(std::span<const PendingAct> acts);

// Writes the files of one submission. `maybe_known`: an earlier one with its key may have happened.
Result<JobSpec> prepare_job(const ControlledRun& run, std::span<const PendingAct> acts, bool maybe_known);

}  // namespace longhaul
