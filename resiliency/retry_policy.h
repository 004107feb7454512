// Whether to try once more, as a pure function of what happened so far; asked by the controller for a new job and by
// the lead for a new launch within its job.
//
// The rule: every group of faults has a budget of its own, so that a bad week of the machine does not use up what the
// user granted to the program. Faults that trying again cannot cure stop at once; the same cause three times in a row
// without progress stops the stage whatever the budgets are, because the fourth time will not differ; running out of
// memory is tried again only in another way. Exponential back-off was not taken: the scheduler's queue is the pause.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "resiliency/fault_class.h"

namespace longhaul {

struct PastEnd {
  FaultClass fault = FaultClass::program;
  std::string cause;           // compared literally: one root cause, one text
  bool made_progress = false;  // a newer checkpoint than the attempt before
  std::string node;            // the only one that it ran on, or that was lost under it; "" if nothing points at one
};

struct RetryBudgets {
  int application = 1;       // further tries after a fault of the program
  int infrastructure = 5;    // without progress in between
  int preemptions = 100;     // without progress in between
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
  std::string evidence;  // "node_fail of pretrain, attempt 2: ..."
};
struct NodeEvidence {
  std::string node;
  FaultClass fault = FaultClass::none;
  std::int64_t at_ms = 0;
  std::string what;
};
// Nodes to avoid at `now_ms`: those that an infrastructure fault, or memory that was not there, points at. A suspicion
// expires after `expiry_ms`; every further fault on the same node doubles that time, up to eight times.
std::vector<NodeSuspicion> suspect_nodes(const std::vector<NodeEvidence>& evidence, std::int64_t now_ms,
                                         std::int64_t expiry_ms);

}  // namespace longhaul
