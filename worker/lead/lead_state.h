// What another lead needs to go on where this one stood: told to the standby whenever it changes, over its connection.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/value.h"
#include "contracts/launch.h"
#include "resiliency/restart_tier.h"
#include "worker/lead/growth_trial.h"
#include "worker/lead/host_pool.h"
#include "worker/protocol/lost_lead.h"

namespace longhaul {

struct LeadState {
  static constexpr int format = 1;
  std::string attempt_key;
  std::int64_t epoch = 1;  // of the lead that says so
  std::int64_t started_ms = 0;
  std::string lead_host;  // of the job's script
  std::string led_from;   // of the lead that says so
  Launch launch;          // the newest; its ranks may have ended by now
  HostPool hosts;
  TierHistory history;
  std::int64_t step = -1, saved_step = -1;
  std::int64_t end_by_ms = 0;  // when the job ends by the scheduler's word, wall clock; 0: not known
  GrowthTrial trial;           // of nodes that have come back
  LostLead lost;               // added by the standby's agent
};
Value lead_state_to_value(const LeadState& state);
Result<LeadState> lead_state_from_value(const Value& value);  // corrupt

}  // namespace longhaul
