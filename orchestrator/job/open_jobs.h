// The jobs that a run waits for, and what their leads have left: what a controller knows without asking the scheduler.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "orchestrator/scheduler/scheduler.h"
#include "orchestrator/state/run_ledger.h"

namespace longhaul {

// Of open stages the newest attempt, and every successor that may still be in the queue; in plan order. Pure.
std::vector<OpenJob> open_jobs(const std::string& run_dir, const RunLedger& ledger);

// The end of a job as its record says. nullopt: there is no record of the life that the ledger knows of, or a later
// one has begun already (the scheduler queued the job again and we have not heard of it): then only the scheduler can
// show it.
std::optional<JobInfo> end_by_record(const OpenJob& open);

}  // namespace longhaul
