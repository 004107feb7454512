// When this agent, being the standby, starts a lead in waiting, and when it may end that is asked to end. One thread.
#pragma once

#include <cstdint>

#include "base/process/log.h"
#include "base/system/clock.h"
#include "worker/agent/leads/lead_link.h"
#include "worker/agent/leads/stand_in.h"

namespace longhaul {

class StandbyDuty {
 public:
  StandbyDuty(StandInOptions options, const Clock& clock, Logger& log)
      : clock_(clock), log_(log), stand_in_(std::move(options), clock, log) {}

  StandIn& stand_in() { return stand_in_; }
  bool leads_itself() const { return stand_in_.running(); }
  // Starts the lead in waiting when ours is lost; sees to one that has ended. Whether this one is no standby since now.
  bool look(const LeadLink& link);
  // Asked to end, and nobody is left who would have to be followed.
  bool may_end(const LeadLink& link);

 private:
  const Clock& clock_;
  Logger& log_;
  StandIn stand_in_;
  std::int64_t next_ns_ = 0;      // to start one
  std::int64_t stopping_ns_ = 0;  // since when it is asked to end; 0: it is not
  bool last_stand_ = false, done_ = false;
};

}  // namespace longhaul
