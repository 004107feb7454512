#include "worker/lead/agents/host_answers.h"

#include "base/text/text.h"

namespace longhaul {

void HostAnswers::look(const std::string& host, const AgentPresence& agent) {
  if (agent.connected) {
    lost_.erase(host);
    look_at_living(host, agent.peer);
    return;
  }
  living_.erase(host);
  lost_.try_emplace(host, agent.peer, clock_).first->second.look();
}

void HostAnswers::look_at_living(const std::string& host, const PeerAddress& peer) {
  if (answered_.contains(host) || silent_.contains(host) || peer.address.empty()) return;
  auto probe = living_.find(host);
  if (probe == living_.end()) {
    if (living_.size() >= at_once_max) return;  // its turn comes
    probe = living_.try_emplace(host, peer, clock_).first;
  }
  probe->second.look();
  if (probe->second.has_answered()) {
    answered_.insert(host);
  } else if (probe->second.knocks() > knocks_max) {
    silent_.insert(host);
    log_.info(
        format("event=host_drops_knocks host={} at={} what='it does not answer though its agent does: a firewall, "
               "perhaps; whether it lives without its agent is not known'",
               host, peer.address));
  } else {
    return;
  }
  living_.erase(probe);
}

bool HostAnswers::may_live(const std::string& host, const AgentPresence& agent) const {
  const auto probe = lost_.find(host);
  if (probe != lost_.end() && probe->second.answers()) return true;
  return silent_.contains(host) && !agent.unanswered;
}

}  // namespace longhaul
