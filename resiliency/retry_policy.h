// Room resiliency
// Policies that controller, lead and simulator ask alike: retries, checkpoint interval, progress, timeouts.
// retry_policy.h says whether to try again; saved_progress.h what counts as progress.
// timeout_hierarchy.h says which timeout must be longer than which; checkpoint_interval.h how often to save.
// All are pure, and may not include health, goodput or the simulator: callers pass in what was seen.
//
// Whether to try once more, as a pure function of what happened so far; asked by the controller for a new job and by
// the lead for a new launch within its job.
//
// The rule: every group of faults has a budget of its own, so that a bad week of the machine does not use up what the
// user granted to the program. Faults that trying again cannot cure stop at once; the same cause three times in a row
// without progress stops the stage whatever the budgets are, because the fourth time will not differ; running out of
// memory is tried again only in another way. Causes are compared by fingerprint (taxonomy/fingerprint.h): numbers,
// paths and hosts in their texts do not make them different. Exponential back-off was not taken: the scheduler's queue
// is the pause.
//
// Progress fills a budget up again where work goes on from what was saved: weeks of training meet more faults than
// anybody would grant, and whoever gets further is not running in circles. A stage that starts from nothing each time
// has its application budget once (docs/decisions.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "resiliency/taxonomy/fault_class.h"

namespace longhaul {

struct PastEnd {
  FaultClass fault = FaultClass::program;
  std::string cause;           // as people read it
  bool made_progress = false;  // a newer checkpoint than the attempt before
  std::string node;            // the only one that it ran on, or that was lost under it; "" if nothing points at one
};

struct RetryBudgets {
  int application = 1;       // further tries after a fault of the program; without progress in between if `resumable`
  int infrastructure = 5;    // without progress in between
  int preemptions = 100;     // without progress in between
  int validations = 2;       // exit codes 16 and 17, without progress in between
  bool resumable = false;    // goes on from its saved state: a wall time that is over is no fault
  bool can_exclude = false;  // the site lets a job name nodes that it does not want
};

struct RetryVerdict {
  bool again = false;
  std::string reason;  // for the log: "attempt 2 of 3", "bad_input is not cured by trying again"
};

inline constexpr int same_cause_max = 3;

// `ends` are all bad ends since the user last asked (oldest first, the newest included).
RetryVerdict decide_retry(const std::vector<PastEnd>& ends, const RetryBudgets& budgets);

// A node that something failed on, and until when it is avoided.
struct NodeSuspicion {
  std::string node;
  std::int64_t since_ms = 0, until_ms = 0;
  std::string evidence;  // "node_fail of pretrain, attempt 2: ...", of the newest
  int faults = 0;        // that count against it
  // A host that fails again: not to be used once more within this job, whatever the time.
  bool lemon() const { return faults >= lemon_faults; }
  static constexpr int lemon_faults = 2;
};
struct NodeEvidence {
  std::string node;
  FaultClass fault = FaultClass::none;
  std::int64_t at_ms = 0;
  std::string what;
  std::string cause;  // of the fault, to see whether it follows the program; "" is compared with nothing
};
// A job that has ended badly, as its record has it.
struct EndedJob {
  std::string node;  // the only one that it ran on, or that was lost under it; "" if nothing points at one
  FaultClass fault = FaultClass::none;
  std::int64_t at_ms = 0;
  std::string where, cause;
  std::vector<std::string> nodes_left = {};  // by its lead, which had its reasons and reported them (event `fault`)
};
// What that says of nodes; a fault within a job whose node was kept says nothing.
void add_evidence(const EndedJob& job, std::vector<NodeEvidence>& evidence);
// Nodes to avoid at `now_ms`, by name. A fault that is surely the host's (Accusation::sure) accuses it at once. One
// that may be the program's accuses it at the second fault on the same host, unless the same cause (by class and
// fingerprint) was met at least as often on other hosts: then it follows the program. A suspicion expires after
// `expiry_ms`; every further fault that counts doubles that time, up to eight times, and faults farther apart than that
// have nothing to do with each other's doubts.
std::vector<NodeSuspicion> suspect_nodes(const std::vector<NodeEvidence>& evidence, std::int64_t now_ms,
                                         std::int64_t expiry_ms);

}  // namespace longhaul
