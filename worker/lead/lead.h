// Room worker/lead
// The lead of one job, from claim to record: it starts the ranks, watches them, restarts them and publishes.
// lead.h is a job from outside; job_lead.h the class, with a job_*.cc for each phase; its parts are the rooms.
// teardown.h waits for killed ranks; publish.h publishes; next_round.h, last_rounds.h start controller rounds.
// It knows agents only by the protocol: worker/agent may not be included.
//
// `longhaul-worker lead --attempt DIR`: one job from claim to record.
//
//   claim (exclusive) -> clear what lost attempts left -> launch.toml -> start ranks -> watch -> publish -> record
//   (exclusive)
//
// A second lead of the same attempt finds the claim and ends: exactly one job for every attempt, however often it was
// submitted. SIGTERM cancels: the ranks get SIGTERM, after the grace SIGKILL. All other ways to end, good or bad, leave
// a record; a lead without record and without process is lost, and the controller says so. SIGUSR1 says that the job's
// wall time is nearly over: the ranks are asked to save and stop, and the record says that the work goes on elsewhere.
//
// When the record is written the doorbell rings, and where the run is driven by its jobs the lead starts the next round
// of the controller and waits for it.
#pragma once

#include <string>

#include "base/error/result.h"
#include "base/files/files.h"
#include "base/process/log.h"
#include "base/system/clock.h"
#include "worker/lead/placement/allocation_info.h"

namespace longhaul {

enum class LeadEnd {
  recorded,
  recorded_failure,  // the work did not end well
  already_led,
  superseded,  // another lead has taken over: the record will be its
};

// Runs in the main thread of its process: blocks SIGTERM, SIGINT, SIGHUP and SIGCHLD and waits for them by itself.
// An error means that not even a record could be written.
Result<LeadEnd> run_lead(const std::string& attempt_dir, const std::string& worker_program, const AllocationInfo& job,
                         Clock& clock, Logger& log);

// The lead in waiting: `state_path` holds what the lead that is lost had sent (lead_state.h), `listener` is the socket
// that agents turn to. Takes over when most of them have, and goes on to the record; unavailable: they have not, and
// nothing was done.
Result<LeadEnd> take_over(const std::string& attempt_dir, const std::string& worker_program, const AllocationInfo& job,
                          const std::string& state_path, FileDescriptor listener, Clock& clock, Logger& log);

}  // namespace longhaul
