// Room worker/lead/failover
// A lead that is lost, and another one that goes on in its place.
// leadership.h chooses which node would lead next (the standby) and says whether a lead still leads; lead_state.h is
// what the new lead needs; majority_wait.h and scheduler_vote.h say when it may lead. lead_holder.h is the process of
// the job's script; job_end_time.h asks when Slurm ends the job. It does not include the lead itself (job_lead.h),
// which continues with the ranks that are running.
//
// What another lead needs to go on where this one stood: sent to the standby whenever it changes, over its connection.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/value/value.h"
#include "contracts/records/launch.h"
#include "contracts/settings/job/port_range.h"
#include "resiliency/taxonomy/restart_tier.h"
#include "worker/lead/monitor/goodput_watch.h"
#include "worker/lead/placement/growth_trial.h"
#include "worker/lead/placement/host_pool.h"
#include "worker/lead/recovery/event_facts.h"
#include "worker/protocol/wire/lost_lead.h"

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
  std::int64_t step = -1;
  EventFacts::Steps judged;  // how far it had saved at the newest fault
  // When the job ends by what the scheduler says, CLOCK_MONOTONIC of the host that reads it; 0: not known. Sent is how
  // long it is until then.
  std::int64_t end_by_ns = 0;
  GrowthTrial trial;  // of nodes that have come back
  // What the events up to a place in their file have reported, in keys of JobLead alone: who goes on with the job
  // reads no more than what follows it, and not weeks of them.
  Value seen = Value::make_table();
  std::optional<GoodputWatch> goodput;
  PortRange ports;        // that the job's programs listen on
  LostLead lost;          // added by the standby's agent
  std::int64_t asks = 0;  // also: the epoch that its lead in waiting asks for; 0: the next
};
// `now_ns`, `now_ms`: the monotonic and the wall clock of the lead that sends it.
Value lead_state_to_value(const LeadState& state, std::int64_t now_ns, std::int64_t now_ms);
// The same, in at most `bytes_max` bytes of JSON: what has to go goes from the oldest restarts on. nullopt: even
// without any it is too large.
std::optional<Value> lead_state_within(LeadState state, std::int64_t now_ns, std::int64_t now_ms,
                                       std::size_t bytes_max);
// What changes all the time, for a standby that knows the rest (worker/protocol/node/standby_state.h).
Value lead_news_to_value(const LeadState& state, std::int64_t now_ns, std::int64_t now_ms);
// Times of day come back as this host's clock had them, where its agent has noted when the state came
// (worker/protocol/node/reported_times.h).
Result<LeadState> lead_state_from_value(const Value& value);  // corrupt

}  // namespace longhaul
