// Which agents count as a lead's majority: those that were heard of lately. An open connection says nothing, for after
// a cut nobody closes one: a lead whose own cable is pulled would find all of its agents connected, and another one
// leads them already. Agents say something twice a second, and turn to another lead when theirs is silent for two.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "contracts/control/control_times.h"
#include "worker/lead/agents/agent_table.h"

namespace longhaul {

inline bool is_heard(const AgentState& agent, std::int64_t now_ns) {
  return agent.connected && agent.heard_ns > 0 && now_ns - agent.heard_ns <= heard_of_within_ms * 1'000'000;
}

inline std::set<std::string> heard_hosts(const std::map<std::string, AgentState>& agents, std::int64_t now_ns) {
  std::set<std::string> heard;
  for (const auto& [host, agent] : agents)
    if (is_heard(agent, now_ns)) heard.insert(host);
  return heard;
}

// Whether the node that makes a job's steps goes on doing so. `accused`: it was left, or a fault names it; one that is
// only slow, or has a bad GPU, is heard of all the same and makes them. `comes`: its agent died, and another is on its
// way. nullptr: no agent of it is known.
inline bool still_makes_steps(const AgentState* agent, bool comes, bool accused, std::int64_t now_ns) {
  if (agent == nullptr) return !accused;
  return comes || (agent->connected && (!accused || is_heard(*agent, now_ns)));
}

}  // namespace longhaul
