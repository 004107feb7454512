// A floor of goodput. A training that saves often gets a step further in spite of a fault every few minutes: every
// restart "made progress", and a thousand ranks are started again for ever, minutes of start for seconds of steps. So
// where little of the last two hours was training, and most restarts in them belong to one host or one cause, the
// restart that was tried so often is not tried again: the next dearer one is taken (restart_tier.h). Pure; the lead
// asks it for every fault, and the simulator asks the same.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "resiliency/taxonomy/restart_tier.h"

namespace longhaul {

// How much of the newest stretch of time was training, by a GoodputLedger (goodput/goodput_ledger.h). A clock of one
// host, in ms, that does not step back.
class GoodputWindow {
 public:
  // `training_ms`: of the ledger, so far. In the order of their times.
  void note(std::int64_t at_ms, std::int64_t training_ms);
  // Up to the newest note; of a training that is younger than the window all its time.
  RecentGoodput recent() const;

  // What was noted, a note per five minutes; of use to another lead that goes on with it.
  const std::deque<std::pair<std::int64_t, std::int64_t>>& notes() const { return notes_; }

 private:
  std::deque<std::pair<std::int64_t, std::int64_t>> notes_;  // oldest first; of those before the window one
};

struct FloorVerdict {
  bool below = false;
  bool of_host = false;  // the fault's host has had the restarts; else its cause has
  std::string why;       // "12 % of the last 2 h were training, and this is the 6th restart for n3 in them"
};
// `history` without `fault`. Not below: where a younger training than TierBudgets::floor_least_ms says little, where
// nothing is known of its goodput, and for faults of a user's own program, which no host and no job cures.
FloorVerdict judge_floor(const FaultView& fault, const TierHistory& history, const TierBudgets& budgets = {});

}  // namespace longhaul
