// What a controller does next, as a pure function of the plan, of the ledger (everything that was ever seen, intended
// and done) and of what it sees now. No I/O, no clock, no randomness: two controllers that see the same decide the
// same.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/scheduler/scheduler.h"
#include "orchestrator/state/run_ledger.h"
#include "orchestrator/workflow/run_plan.h"

namespace longhaul {

// A published artifact as its manifest describes it.
struct ArtifactSeen {
  std::string folder, digest;
  Value figures;
};

struct RequestSeen {
  std::string id;    // name of its file
  std::string what;  // "cancel", "resume", "tell"; anything else is answered with a refusal
  Value arguments = {};
};

// A stage whose inputs are there, made ready for submission outside (digests of raw inputs are I/O).
struct PreparedStage {
  std::string problem;  // not empty: an input cannot be read; nothing else is set then
  std::string key;
  std::vector<TaskInput> inputs;
  std::optional<ArtifactSeen> cached;
};

struct Observations {
  std::vector<RequestSeen> requests;
  std::map<std::string, JobInfo> jobs;            // by submission key
  std::map<std::string, ArtifactSeen> artifacts;  // by stage: of jobs whose record says that they succeeded
  std::map<std::string, std::string> broken;      // by stage: the record says succeeded, the artifact does not
  std::map<std::string, OrderOutcome> orders;     // by id: of open orders, what their leads wrote down
  std::map<std::string, PreparedStage> prepared;  // by stage: of those that wants_preparation() named
};

// Facts to write, in order. Intents among them (`submit`, `cancel_job`) are acted upon afterwards, see pending_acts().
std::vector<Fact> decide(const RunPlan& plan, const RunLedger& ledger, const Observations& seen,
                         const std::string& run_name);

// Stages that wait for nothing but their preparation.
std::vector<const PlannedStage*> wants_preparation(const RunPlan& plan, const RunLedger& ledger);

// The stage whose artifact an input takes: the only one, or the best of a matrix by its figure (first in plan order
// where two are equal). not_found: none of them has an artifact; invalid_input: none has the figure.
Result<std::string> choose_source(const PlannedInput& input, const RunLedger& ledger);

// Intents of the ledger without an outcome: what has to be done (again), by whichever controller reads them. Doing one
// twice is harmless: submissions are idempotent by key, a second cancellation changes nothing.
struct PendingActs {
  std::vector<const LedgerStage*> submit;
  std::vector<const LedgerStage*> cancel;
};
PendingActs pending_acts(const RunLedger& ledger);

// Unique among all submissions of all runs, and the same for every controller that comes to the same attempt.
std::string submission_key(const std::string& run_name, const std::string& stage, int attempt);

}  // namespace longhaul
