// Which hosts of a job may live whose agents are gone, by whether their kernels answer
// (worker/protocol/wire/host_probe.h).
//
// Each host is knocked at while its agent is connected, until it answers once: of such a host silence means later that
// it is dead or cut off. One that lets nothing come through although its agent talks to us (a firewall that drops what
// it does not know) is silent whatever becomes of it: whether it lives is not known then, and it is held to live, until
// an agent cannot be started there or the scheduler says that it is down.
#pragma once

#include <map>
#include <set>
#include <string>

#include "base/process/log.h"
#include "base/system/clock.h"
#include "worker/protocol/wire/host_probe.h"

namespace longhaul {

// Of a host, as the lead sees its agent.
struct AgentPresence {
  bool connected = false;
  bool unanswered = false;  // its connection broke for want of an answer, and nobody there has closed it
  PeerAddress peer;         // where it came from last
};

class HostAnswers {
 public:
  static constexpr int knocks_max = 8;            // 2 s without an answer: it drops them
  static constexpr std::size_t at_once_max = 16;  // of living hosts: sockets are few where hosts are many

  HostAnswers(const Clock& clock, Logger& log) : clock_(clock), log_(log) {}
  // Knocks where that is due. Never waits.
  void look(const std::string& host, const AgentPresence& agent);
  // Of a host whose agent is not connected: its kernel has answered lately, or would not in any case.
  bool may_live(const std::string& host, const AgentPresence& agent) const;

 private:
  void look_at_living(const std::string& host, const PeerAddress& peer);

  const Clock& clock_;
  Logger& log_;
  std::map<std::string, HostProbe> living_;  // knocks at hosts whose agent is connected
  std::map<std::string, HostProbe> lost_;    // at those whose agent is not
  std::set<std::string> answered_, silent_;
};

}  // namespace longhaul
