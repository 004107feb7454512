// Whether this lead leads the job, and who would lead it next. One agent of another node is the standby: it is sent
// what it needs to go on (lead_state.h), and every agent is sent its address. A lead that is connected to less than
// half of the agents decides nothing, for another one may have taken over; once it sees that another one has, it is
// superseded for good.
//
// One thread. The agents belong to the lead and come in with each call; null means that all ranks are on this node,
// which nobody else can lead. Nothing here fails: what cannot be sent is logged, and the job goes on without a standby.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/process/log.h"
#include "base/system/clock.h"
#include "worker/lead/agents/agent_table.h"
#include "worker/lead/failover/lead_state.h"
#include "worker/lead/failover/scheduler_vote.h"
#include "worker/lead/monitor/launch_guard.h"
#include "worker/lead/placement/host_pool.h"

namespace longhaul {

class Leadership {
 public:
  // `own_node`: of this lead. `scheduler_job`: asked for its nodes where most agents are silent; "": by nobody.
  Leadership(std::string own_node, std::string scheduler_job, Clock& clock, Logger& log);

  // This lead follows one that is lost; `vote` is what let it.
  void take_over(SchedulerVote vote) { vote_.emplace(std::move(vote)); }
  // Another lead has taken over while this one was cut off. It stays so.
  bool superseded() const { return superseded_; }
  // After each look at the agents.
  void note(const AgentTable& agents) { superseded_ = superseded_ || agents.superseded(); }
  // A lead that was frozen with its host may wake at any point, after another one has led, and even ended, the job: it
  // asks this before it reports an end and before it launches again.
  bool check_superseded(AgentTable* agents);
  // Whether this lead may decide anything. Without it the scheduler is asked, at most every five seconds, which nodes
  // are gone.
  bool has_majority(const AgentTable* agents, const HostPool& hosts);
  // The scheduler has taken the node out of the job.
  bool is_gone(const std::string& host) const { return vote_ && vote_->gone().count(host) > 0; }
  // A working node of which that is so and whose agent is not connected. `step`: the newest, for the finding.
  std::optional<GuardFinding> lost_by_scheduler(const AgentTable& agents, const HostPool& hosts,
                                                std::int64_t step) const;

  // What the standby has to know has changed: it is sent whole at the next keep_standby().
  void note_change() { changed_ = true; }
  // Pings the agents twice a second, chooses a standby where there is none, and sends it `state()`: whole where it has
  // changed, else every ten seconds what changes all the time. `launch`: the newest, 0 before the first, when there is
  // nothing to send.
  void keep_standby(AgentTable& agents, const HostPool& hosts, int launch, const std::function<LeadState()>& state);
  const std::string& standby() const { return standby_; }  // its node; "": none

 private:
  void choose_standby(const AgentTable& agents, const HostPool& hosts);
  void send_state(AgentTable& agents, const LeadState& state, std::int64_t now_ns);

  const std::string own_node_, scheduler_job_;
  Clock& clock_;
  Logger& log_;
  std::optional<SchedulerVote> vote_;  // where most nodes are silent
  std::string standby_;
  std::int64_t next_ping_ns_ = 0, next_news_ns_ = 0;
  bool changed_ = true, superseded_ = false;
};

}  // namespace longhaul
