// Starts an agent again on a host where it alone has died, in a step of its own beside the one that runs the others.
// What is decided is MissingAgents' (worker/lead/agents/missing_agents.h); here are the knocks at hosts and the steps.
// One thread.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/process/log.h"
#include "base/system/clock.h"
#include "worker/launch/agent_launcher.h"
#include "worker/lead/agents/agent_step.h"
#include "worker/lead/agents/agent_table.h"
#include "worker/lead/agents/host_answers.h"
#include "worker/lead/agents/missing_agents.h"

namespace longhaul {

class ReplacementAgents {
 public:
  // `launcher`: of the agents of all nodes; `agent`: the program and its arguments; what they print goes to log_path.
  ReplacementAgents(std::vector<std::string> launcher, std::vector<std::string> agent, std::string log_path,
                    const Clock& clock, Logger& log);
  ~ReplacementAgents() { end(); }
  ReplacementAgents(const ReplacementAgents&) = delete;
  ReplacementAgents& operator=(const ReplacementAgents&) = delete;

  // Cheap to call often. `step`: of all agents, where this lead has started it; it may be about to bring one.
  void look(const AgentTable& agents, const AgentStep* step);
  bool is_expected(const std::string& host) const { return missing_.is_expected(host); }
  std::vector<AgentNews> take_news() { return missing_.take_news(); }
  // Of those that have brought no agent nobody will end by itself: whoever waits for one would wait for a dead node.
  void give_up_absent(const AgentTable& agents);
  void end();                         // the agents were asked to: waits a second, then SIGTERM, SIGKILL; reaped
  void release() { steps_.clear(); }  // they work for another lead

 private:
  void start(const std::string& host, bool with_gpus);
  void look_at_steps(const AgentTable& agents);

  std::vector<std::string> launcher_, agent_;
  std::set<std::string> without_gpus_;  // hosts where a step that asks for GPUs has brought no agent
  std::string log_path_;
  const Clock& clock_;
  Logger& log_;
  MissingAgents missing_;
  HostAnswers answers_;
  std::vector<std::pair<std::string, pid_t>> steps_;  // by host; an agent's first step may end after its second began
};

}  // namespace longhaul
