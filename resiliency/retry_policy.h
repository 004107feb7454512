// Whether to try once more, as a pure function of what happened so far; asked by the controller for a new job and by
// the lead for a new launch within its job.
//
// The rule: some faults cannot be cured by trying again (bad input, time limit) and stop at once; all others share the
// budget that the user gave; and however large that budget is, the same cause three times in a row without progress
// stops the stage, because the fourth time will not differ. Exponential back-off was not taken: within one machine the
// cause is either gone at once or needs a person.
#pragma once

#include <string>
#include <vector>

#include "resiliency/fault_class.h"

namespace longhaul {

struct PastEnd {
  FaultClass fault = FaultClass::program;
  std::string cause;           // compared literally: one root cause, one text
  bool made_progress = false;  // a newer checkpoint than the attempt before
};

struct RetryVerdict {
  bool again = false;
  std::string reason;  // for the log: "attempt 2 of 3", "bad_input is not cured by trying again"
};

inline constexpr int same_cause_max = 3;

// `ends` are all bad ends since the user last asked (oldest first, the newest included); `retries` further tries
// allowed.
RetryVerdict decide_retry(const std::vector<PastEnd>& ends, int retries);

}  // namespace longhaul
