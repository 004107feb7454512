// Room orchestrator/state
// What is known of a run: the log of each controller, and the ledger that is folded from all of them.
// Read fact.h (one line), epoch_log.h (one file for each controller), run_ledger.h (which facts are legal when).
// run_status.h is the ledger from outside; stage_goodput.h where the time went; run_folder.h the paths.
// It does not know the scheduler: a job is an id in a fact.
//
// What a controller knows of its run: the fold of all facts, and the table of transitions that decides which facts are
// legal when. No I/O, no clock: the same facts give the same ledger anywhere.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "contracts/control/order.h"
#include "contracts/tasks/task.h"
#include "orchestrator/state/fact.h"
#include "orchestrator/state/run_status.h"
#include "resiliency/saved_progress.h"

namespace longhaul {

struct Transition {
  StageState from;
  FactKind fact;
  StageState to;
};
// Every legal one, also those that stay where they are. All others are refused. Printed in docs, iterated by tests.
std::span<const Transition> stage_transitions();

// Why an attempt gets no further, though nothing has failed: its submission is refused for now, or its job waits in the
// queue for what does not come by itself.
struct HeldUp {
  std::string by;             // "limit", "busy", "unknown" (to_string(Refusal)); "queue"; "" for nothing
  std::string cause;          // the scheduler's message
  std::string advice;         // for a person
  std::int64_t since_ms = 0;  // the first of these messages, of whatever kind
};

struct LedgerAttempt {
  int number = 0;
  std::string key;      // unique submission key
  std::string job;      // the scheduler's id, "" until submitted
  std::string refused;  // why the scheduler would not have it
  bool cancel_wanted = false, cancel_sent = false;
  bool given_up = false;  // its end is our own decision: the scheduler still has the job until the cancellation is sent
  bool release_wanted = false;
  int releases = 0, restarts = 0;  // of a held job; by the scheduler
  std::string fault, cause;        // how it ended, if badly
  bool made_progress = false;
  std::int64_t saved_step = no_saved_step;  // newest whole checkpoint of the stage, when this one had ended
  std::string saved;                        // of a program that reports none: digest of what the stage kept then
  std::int64_t step = -1;                   // newest that it reached, -1: not known
  std::string node;                         // the only one that it ran on, or that was lost under it
  std::int64_t ended_ms = 0;
  std::int64_t ran_ms = 0;                       // from its start to its end
  std::string array;                             // key of the submission that it is a task of; "" for a job of its own
  int task = -1;                                 // its index there
  int after = 0;                                 // the attempt that has to end first; 0: none
  std::vector<std::string> exclude;              // nodes not to use
  bool lift_wanted = false;                      // of those, fewer than it was submitted with
  std::int64_t wanted_ms = 0, submitted_ms = 0;  // decided; known to be submitted, 0: not yet
  std::int64_t waits_since_ms = 0;               // in the scheduler's queue, or since an exclusion was lifted
  std::vector<std::string> nodes_left;           // of its own, that its lead did not use any more
  double wall_s = 0;                             // of the job; 0: as planned
  std::int64_t intent_epoch = 0;                 // in which it was decided
  HeldUp held_up;

  bool answered() const { return !job.empty() || !refused.empty(); }
};

// What a training published while it went on: an artifact of its own.
struct LedgerMilestone {
  std::string artifact, digest;
  Value figures;
};

struct LedgerStage {
  std::string id;
  StageState state = StageState::waiting;
  std::string key;                // task key; known from `ready` on
  std::vector<TaskInput> inputs;  // from `ready` on
  Value layout;                   // from `ready` on, where another stage has found it: settings as a user writes them
  std::string why;                // from `ready` on: it is not taken from an earlier run
  std::vector<LedgerAttempt> attempts;
  std::size_t attempts_before_reset = 0;
  std::int64_t submitted_ms = 0, started_ms = 0, ended_ms = 0;
  std::string cause;
  std::string fault, verdict;      // of the newest bad end: its class, and why it was tried again or not
  std::string artifact, digest;    // folder and manifest digest, when succeeded or cached
  std::int64_t artifact_uid = -1;  // whose folder that is, when cached; -1: not known
  Value figures;
  std::map<std::int64_t, LedgerMilestone> milestones;  // by step; of this key

  // A chain's next job: queued while the newest attempt runs, in its place when that has ended.
  std::optional<LedgerAttempt> successor;

  // What its jobs have saved since it was last begun: the greatest steps of all, and the contents after the last one.
  SavedState saved_so_far() const;
  const LedgerAttempt* newest() const { return attempts.empty() ? nullptr : &attempts.back(); }
  LedgerAttempt* attempt(int number);
  int last_number = 0;  // of all attempts and successors that there were: keys and folders are never used twice
  int next_number() const { return last_number + 1; }
  // A successor that may still be in the scheduler's queue.
  bool successor_open() const { return successor && successor->refused.empty() && !successor->cancel_sent; }
  bool has_artifact() const { return state == StageState::succeeded || state == StageState::cached; }
  bool job_open() const { return state == StageState::submitted || state == StageState::running; }
};

// An order that was given to a stage and accepted.
struct LedgerOrder {
  std::string stage;
  Order order;
  std::string outcome;  // "" until it is known
  bool done = false;
};

// What somebody asked of the run: `uid` owned the file that did, -1 where the log does not say it.
struct LedgerRequest {
  std::string id, what, answer;
  bool accepted = false;
  std::int64_t uid = -1, wall_ms = 0;
};

// Something about the scheduler that people should know.
struct LedgerNotice {
  std::string id, text;
};

// Who drove the run in an epoch.
struct LedgerDriver {
  std::int64_t epoch = 0;
  std::string host;
  std::int64_t pid = 0;
  std::uint64_t start_ticks = 0;
  std::int64_t claimed_ms = -1;  // by its host's monotonic clock; -1: its log does not say it
  bool left = false;             // it said so: it has no call under way and makes no more
};

struct RunLedger {
  std::vector<LedgerStage> stages;      // in plan order
  std::vector<LedgerRequest> requests;  // that were answered
  std::vector<LedgerOrder> orders;      // as they were accepted
  std::vector<LedgerNotice> notices;    // in order
  bool cancel_requested = false;
  bool ended = false;  // run_ended was the last fact
  RunState state = RunState::running;
  std::int64_t ended_ms = 0, epoch = 0;
  std::string driver_host;
  std::int64_t driver_pid = 0, driver_uid = -1;  // of the newest epoch
  std::uint64_t driver_start_ticks = 0;
  std::vector<LedgerDriver> drivers;  // of the newest epochs, oldest first
  std::int64_t facts = 0;             // how many were folded
  std::vector<std::string> refused;   // facts that no transition allows: a bug or a damaged log, to be logged

  static constexpr std::size_t drivers_max = 256;

  explicit RunLedger(const std::vector<std::string>& stage_ids = {});
  LedgerStage* find(const std::string& id);
  const LedgerStage* find(const std::string& id) const;
  // Every stage has ended, and no job is left in the queue that nobody waits for.
  bool all_final() const;
  bool answered(const std::string& request) const;
  bool noticed(const std::string& notice) const;

  void apply(const Fact& fact);

 private:
  std::shared_ptr<const std::unordered_map<std::string, std::size_t>> positions_;  // of the stages, by id
};

// The inputs of a `ready` fact, to and from its fields.
Value inputs_to_value(const std::vector<TaskInput>& inputs);
std::vector<TaskInput> inputs_from_value(const Value* value);

}  // namespace longhaul
