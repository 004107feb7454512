// Where jobs run, as the controller sees it. All implementations pass one contract suite
// (tests/unit/orchestrator/scheduler/scheduler_contract.h):
//   - submit is idempotent by key: a key that is known gives the same id and no second job, whoever submitted it first,
//     in this process or in one that was killed;
//   - snapshot answers for all our jobs in one question; a job never goes back (queued -> running -> ended or lost);
//   - cancel of a queued job ends it without ever starting; of a running one asks its lead; of an ended one does
//   nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "contracts/record.h"

namespace longhaul {

struct JobSpec {
  std::string key;          // unique among all submissions; [A-Za-z0-9._-]
  std::string attempt_dir;  // holds attempt.toml
  std::string worker;       // path of longhaul-worker
  int slots = 1;            // CPU slots: ranks * threads
};

enum class JobState { queued, running, ended, lost };
const char* to_string(JobState state);

struct JobInfo {
  std::string id;
  std::string key;
  JobState state = JobState::queued;
  std::int64_t started_ms = 0;      // of the lead's claim; 0: not yet
  std::optional<JobRecord> record;  // ended: the lead's own
  std::string cause;                // lost: what is known about it
};

class Scheduler {
 public:
  virtual ~Scheduler() = default;
  // The job's id. Errors: io, not_found (no such worker), unavailable (try again later).
  virtual Result<std::string> submit(const JobSpec& spec) = 0;
  // All jobs submitted through this folder or account, oldest first.
  virtual Result<std::vector<JobInfo>> snapshot() = 0;
  // Ok also when it has ended meanwhile.
  virtual Status cancel(const std::string& id) = 0;
};

}  // namespace longhaul
