// What the agent that is the standby knows of the lead that it has lost, and the lead that it starts would not: since
// when there has been none, and where it was. Travels in the state that the lost lead had sent (worker/lead/
// lead_state.h), from one process to another of the same host.
#pragma once

#include <cstdint>

#include "base/value/value.h"
#include "worker/protocol/wire/host_probe.h"

namespace longhaul {

struct LostLead {
  std::int64_t since_ns = 0;  // CLOCK_MONOTONIC of this host; 0: not known
  PeerAddress at;             // empty: not known
};
void add_lost_lead(const LostLead& lost, Value& state);
LostLead lost_lead_of(const Value& state);

}  // namespace longhaul
