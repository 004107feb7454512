// What the leads of a Slurm job have left in its attempt folder. A job that Slurm queued again claims and records anew.
#pragma once

#include <cstdint>
#include <string>

#include "contracts/records/record.h"
#include "orchestrator/scheduler/scheduler.h"

namespace longhaul {

std::string record_path(const std::string& attempt_dir, int restarts);
std::string claim_path(const std::string& attempt_dir, int restarts);
// The newest start of which a lead has left something; -1: none. Errors: it cannot be known.
Result<int> newest_start(const std::string& attempt_dir);
// The number under which a lead ran; "" if it left none.
std::string id_left_by_lead(const std::string& attempt_dir, int restarts);
std::string id_left_by_newest_lead(const std::string& attempt_dir);
// A lead has been at work for this submission: the submission's id, or "gone-<key>". "": none has. Errors: it cannot be
// known, and nobody may take it for none.
Result<std::string> id_of_a_start(const JobSpec& spec);
// What stands for the record of a job that was cancelled before any lead was there. `witness`: who says so.
JobRecord never_started_record(const std::string& key, const std::string& id, int restarts, std::int64_t ended_ms,
                               const std::string& witness);

}  // namespace longhaul
