// Room worker/agent
// The agent of one node: watches the ranks there, reports to the lead, does what the lead orders.
// agent.h is the loop; agent_ranks.h acts on the ranks here, node_reporter.h says what changed, agent_pace.h when to
// look. leads/ finds the lead and speaks to it, and starts a new one where it is lost. It decides nothing about faults
// and may not include worker/lead: the two meet in worker/protocol.
//
// The agent of one node: reads the heartbeat pages of the ranks there four times in a step (every 100 to 300 ms),
// reports to the lead what changed, and does what the lead orders; a process of its own looks at the health of the
// node. It decides nothing. One of them is the standby: it holds what another lead would have to know, and starts one
// when the lead is lost; whether that one leads, the majority of the agents decides by turning to it. Without a lead it
// goes on looking for one (the file of its address may name another by then) and lets the ranks be: losing control
// alone stops no training.
#pragma once

#include <atomic>
#include <string>

#include "base/error/result.h"
#include "base/process/log.h"
#include "base/system/clock.h"
#include "worker/protocol/node/health_watch.h"

namespace longhaul {

struct AgentOptions {
  std::string address_path;  // worker/protocol/wire/lead_address.h
  std::string secret_path;
  std::string host;                 // as the lead knows this node
  double alone_max_s = 600;         // without a lead and without a rank that lives; then it ends
  std::string worker_program = {};  // longhaul-worker: looks at stacks, and leads where this agent is the standby
  std::string attempt_dir = {};     // of use to a standby
  HealthWatchOptions health = {};   // without a program: nobody looks at this host
  std::string attempt_key = {};     // by which processes are known to be the job's
};

// Until the lead says so (ok), `stop` is set (ok), or it was alone too long (unavailable). Errors that end it at once:
// what cannot get better (a secret that others can read, a lead that refuses it, another release).
Status run_agent(const AgentOptions& options, Clock& clock, const std::atomic<bool>& stop, Logger& log);

}  // namespace longhaul
