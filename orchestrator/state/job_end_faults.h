// Ends of jobs that no lead could know of: its process was killed, its host lost, the allocation taken. The controller
// knows of them by what it wrote into the run's log; what they cost follows from that and from the events of the
// attempts before and after. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "contracts/events/event.h"
#include "contracts/events/fault_event.h"
#include "orchestrator/state/fact.h"
#include "resiliency/goodput/goodput_ledger.h"

namespace longhaul {

// `end` is a fact; whether it says that a job ended for a fault. A wall time that is over is none, nor is a
// cancellation.
bool is_faulty_end(const Fact& end);
// Whether the lead itself reported this end before it came (event `fault`, tier `new_job` or `stop`). `events` are
// those of the attempt, by time.
bool reported_by_lead(const Fact& end, const std::vector<Event>& events);

// What the accounting has to know of it: a fault that was detected when the controller knew, counted from the attempt's
// last recorded activity, and the end of the job. Nothing where a lead has reported it.
std::vector<GoodputFact> facts_of_end(const Fact& end, const std::vector<Event>& events);

// From the last recorded activity of the attempt to the first step that the next job completes; `started_ms`: when that
// job's lead was there. nullopt: it has not come that far.
std::optional<RecoveredEvent> recovery_after_end(const Fact& end, const std::vector<Event>& before,
                                                 std::int64_t started_ms, const std::vector<Event>& after);

}  // namespace longhaul
