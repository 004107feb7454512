// A restart of the past as it travels from one lead to the next (worker/lead/failover/lead_state.h).
#pragma once

#include "base/value/value.h"
#include "resiliency/taxonomy/restart_tier.h"

namespace longhaul {

Value past_restart_to_value(const PastRestart& past);
PastRestart past_restart_from_value(const Value& value);  // what is missing or unknown keeps its default

}  // namespace longhaul
