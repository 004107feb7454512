// The exchange of all hosts of a job before its first launch, as the lead has it done: every agent listens, is given
// its partners once all of them do, and says what it found. One thread; looked at often; waits for nothing.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "worker/lead/agents/agent_table.h"

namespace longhaul {

class ExchangeRound {
 public:
  // Orders those that are connected to listen. Fewer than three have nothing to be compared with: done() at once.
  ExchangeRound(AgentTable& agents, std::string token);

  // After agents.look(); true once every host has said what it found.
  bool look();
  // By host, as of network_figures; of what was said so far.
  std::map<std::string, double> figures() const;
  // Nobody listens any more.
  void end();

 private:
  bool all(bool (*condition)(const NodeReport&)) const;
  void send_partners();

  AgentTable& agents_;
  std::string token_;
  std::vector<std::string> hosts_;
  bool announced_ = false;
};

}  // namespace longhaul
