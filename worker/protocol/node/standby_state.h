// The state of a lead, as the agent keeps it that is its standby: whole at first and whenever it has changed, and in
// between what changes all the time (worker/lead/failover/lead_state.h).
#pragma once

#include <cstdint>

#include "base/value/value.h"

namespace longhaul {

// `update` has come just now, by both clocks of this host (reported_times.h). false: it is only what changes, of a
// state that was sent to the agent before this one; nothing is kept.
bool keep_lead_state(const Value& update, std::int64_t now_ns, std::int64_t now_ms, Value& state);

}  // namespace longhaul
