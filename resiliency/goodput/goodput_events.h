// What an attempt's events.jsonl says about its time.
#pragma once

#include <vector>

#include "contracts/events/event.h"
#include "resiliency/goodput/goodput_ledger.h"

namespace longhaul {

// When an attempt was asked for, began and ended; 0: not known, or not yet.
struct AttemptTimes {
  std::int64_t submitted_ms = 0, started_ms = 0, ended_ms = 0;
};

// The facts of one attempt in the order of their times. Events that say nothing about time are passed over. `detect_s`
// of a fault counts as the time before its event, `load_s` and `stall_s` as those before theirs.
std::vector<GoodputFact> facts_of(const AttemptTimes& times, const std::vector<Event>& events);

}  // namespace longhaul
