// Room orchestrator/decide
// What a controller does next, as a pure function of what was seen, intended and done.
// decide.h is the decision, round.h its parts in their order; job_end.h says what the end of a job means (its own
// record, else what the scheduler says of it); needs.h, exclusions.h, held_up.h and job_room.h judge single things.
// Two headers touch files: in_flight.h (submissions under way) and input_files.h (digests of raw inputs).
// decide() asks no clock and does no I/O, so the room may include neither runs, jobs nor the controller.
//
// What a controller does next, as a pure function of the plan, of the ledger (everything that was ever seen, intended
// and done) and of what it sees now. No I/O, no clock, no randomness: two controllers that see the same decide the
// same.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/decide/exclusions.h"
#include "orchestrator/decide/input_files.h"
#include "orchestrator/scheduler/scheduler.h"
#include "orchestrator/state/run_ledger.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

// The next job of a chain is queued at once where the stage surely needs it (its time limit is longer than a job's wall
// time), otherwise when this share of the wall time is over: most of those that may need one do not.
inline constexpr double successor_share = 0.5;
bool surely_longer_than_a_job(const PlannedStage& planned, double wall_s);

// A published artifact as its manifest describes it.
struct ArtifactSeen {
  std::string folder, digest;
  Value figures;
  std::int64_t uid = -1;  // owner of the folder, where it was looked at
  bool verified = true;   // its digests, or made by this user
};

struct RequestSeen {
  std::string id;    // name of its file
  std::string what;  // "cancel", "resume", "tell"; anything else is answered with a refusal
  Value arguments = {};
  std::int64_t uid = -1;  // who owns the file; -1: not known
};

// A stage whose inputs are there, made ready for submission outside (digests of raw inputs are I/O).
struct PreparedStage {
  std::string problem;    // not empty: an input cannot be read; nothing else is set then
  bool may_pass = false;  // of the problem: the file system gave an error that it may not give again
  std::string key;
  std::vector<TaskInput> inputs;
  Value found = {};  // settings that the stages named by "@layout" and "@search" have found; null: all was written
  std::optional<ArtifactSeen> cached;
  std::string disbelieved = {};            // why the artifact that there is was not taken
  std::vector<InputFiles> raw_files = {};  // of its raw inputs, one by one
  std::string why = {};                    // it is not taken from an earlier run: for people (reuse/stage_reason.h)
};

// What the site makes of the stages.
struct StageRules {
  bool resumable = false;  // goes on from its saved state in another job
  bool chain = false;      // longer than one job may be: the next one is queued while one runs
  double wall_s = 0;       // of one job; 0: no limit
  std::string shape;       // equal text, equal request: variants of one stage may be tasks of one array
  HostNeed hosts = {};
  std::string job_class = {};
  int class_submitted_max = 0;  // jobs of this class in the queue at the same time; 0: no limit
};
struct SchedulingRules {
  std::vector<StageRules> stages;                // in plan order; empty: a scheduler without any of this
  int array_tasks_max = 0;                       // 0: no arrays
  int submitted_max = 0;                         // jobs in the queue at the same time; 0: no limit
  bool can_exclude = false;                      // jobs may name nodes that they do not want
  std::int64_t suspicion_ms = 86'400'000;        // how long a node is avoided
  std::int64_t submit_patience_ms = 86'400'000;  // with refusals that are not known to pass
  std::int64_t maintenance_ms = 0;               // start of the next one that concerns us; 0: none is known
};

struct Observations {
  std::int64_t now_ms = 0;
  std::vector<RequestSeen> requests;
  std::vector<SchedulerNotice> notices = {};      // all that the scheduler has found
  std::vector<HostSeen> hosts = {};               // the scheduler's; empty: not asked, or not known
  std::map<std::string, JobInfo> jobs;            // by submission key: as the scheduler, or only records, report it
  std::map<std::string, ArtifactSeen> artifacts;  // by stage: of jobs whose record says that they succeeded
  std::map<std::string, SavedState> saved;        // by stage, of those whose job has ended
  // By stage, of those that were looked at after their jobs: milestones that the ledger does not know, by step.
  std::map<std::string, std::map<std::int64_t, ArtifactSeen>> milestones;
  std::map<std::string, std::string> broken;      // by stage: the record says succeeded, the artifact does not
  std::map<std::string, OrderOutcome> orders;     // by id: of open orders, what their leads wrote down
  std::map<std::string, PreparedStage> prepared;  // by stage: of those that wants_preparation() named
};

// Facts to write, in order. Intents among them (`submit`, `cancel_job`) are acted upon afterwards, see pending_acts().
std::vector<Fact> decide(const RunPlan& plan, const SchedulingRules& rules, const RunLedger& ledger,
                         const Observations& seen, const std::string& run_name);

// Stages that wait for nothing but their preparation.
std::vector<const PlannedStage*> wants_preparation(const RunPlan& plan, const RunLedger& ledger);

// The stage whose artifact an input takes: the only one, or the best of a matrix by its figure (first in plan order
// where two are equal). not_found: none of them has an artifact; invalid_input: none has the figure.
Result<std::string> choose_source(const PlannedInput& input, const RunLedger& ledger);

// Intents of the ledger without an outcome: what has to be done (again), by whichever controller reads them. Doing one
// twice is harmless: submissions are idempotent by key, a second cancellation changes nothing.
struct PendingAct {
  const LedgerStage* stage;
  const LedgerAttempt* attempt;  // one of the stage's, or its successor
};
// The key of the submission that serves it: of its array, or its own.
const std::string& submission_of(const PendingAct& act);
struct PendingActs {
  std::vector<PendingAct> submit;  // tasks of one array stand together
  std::vector<PendingAct> cancel;
  std::vector<PendingAct> release;
  std::vector<PendingAct> lift;  // exclusions
};
PendingActs pending_acts(const RunLedger& ledger);

// Unique among all submissions of all runs, and the same for every controller that comes to the same attempt.
std::string submission_key(const std::string& run_name, const std::string& stage, int attempt);

}  // namespace longhaul
