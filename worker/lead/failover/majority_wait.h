// What a lead in waiting does before it leads.
#pragma once

#include "base/process/log.h"
#include "base/system/clock.h"
#include "worker/lead/agents/agent_table.h"
#include "worker/lead/failover/scheduler_vote.h"
#include "worker/lead/placement/host_pool.h"

namespace longhaul {

// Agents that have lost their lead turn to the one in waiting, each by itself, and promise it the epoch that it asks
// for; most of those of the job must, but for nodes that the scheduler has taken out of it. Waits stand_in_ms
// (worker/protocol/node/stand_in_turn.h) at most, and longer by one answer of the scheduler. unavailable: no majority,
// or another lead has followed.
Status wait_for_majority(AgentTable& agents, const HostPool& job_hosts, SchedulerVote& vote, Clock& clock, Logger& log);

}  // namespace longhaul
