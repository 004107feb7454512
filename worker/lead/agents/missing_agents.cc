#include "worker/lead/agents/missing_agents.h"

#include <algorithm>
#include <utility>

namespace longhaul {

std::vector<std::string> MissingAgents::look(std::int64_t now_ms, const std::vector<AgentObservation>& sights) {
  std::vector<std::string> starts;
  for (const AgentObservation& sight : sights) look_at(now_ms, sight, starts);
  return starts;
}

void MissingAgents::look_at(std::int64_t now_ms, const AgentObservation& sight, std::vector<std::string>& starts) {
  Host& host = hosts_[sight.host];
  host.answers = sight.answers && sight.ever_heard && !sight.connected;
  host.apart_ms = sight.apart_ms;
  if (sight.connected) {
    if (host.lost && host.tries > 0)
      news_.push_back({AgentNews::Kind::back, sight.host, host.tries, now_ms - host.lost_ms});
    if (host.lost || host.since_ms == 0) host.since_ms = now_ms;
    if (now_ms - host.since_ms >= times_.steady_ms) host.tries = 0, host.next_ms = 0;
    host.lost = host.given_up = host.starting = false;
    return;
  }
  if (!sight.ever_heard || sight.apart_ms < times_.first_after_ms) return;
  if (!host.lost) host.lost = true, host.lost_ms = now_ms - sight.apart_ms;
  if (host.starting && now_ms - host.started_ms >= times_.deadline_ms) host.starting = false;
  const auto under_way = std::count_if(hosts_.begin(), hosts_.end(), [](const auto& h) { return h.second.starting; });
  if (host.starting || host.given_up || !sight.answers || sight.awaited || now_ms < host.next_ms ||
      under_way >= times_.at_once_max)
    return;
  if (host.tries == times_.tries_max) {
    host.given_up = true;
    news_.push_back({AgentNews::Kind::given_up, sight.host, host.tries, now_ms - host.lost_ms});
    return;
  }
  if (host.tries == 0 || host.started_ms < host.lost_ms)
    news_.push_back({AgentNews::Kind::lost, sight.host, host.tries, now_ms - host.lost_ms});
  host.next_ms = now_ms + std::min(times_.pause_max_ms, times_.pause_ms << std::min(host.tries, 20));
  ++host.tries;
  host.starting = true, host.started_ms = now_ms;
  starts.push_back(sight.host);
}

void MissingAgents::failed(const std::string& host) {
  hosts_[host].starting = false;
}

bool MissingAgents::is_expected(const std::string& host) const {
  const auto known = hosts_.find(host);
  if (known == hosts_.end() || !known->second.answers) return false;
  const Host& seen = known->second;
  return seen.starting || (!seen.given_up && seen.apart_ms < times_.by_itself_ms);
}

bool MissingAgents::is_starting(const std::string& host) const {
  const auto known = hosts_.find(host);
  return known != hosts_.end() && known->second.starting;
}

std::vector<AgentNews> MissingAgents::take_news() {
  return std::exchange(news_, {});
}

}  // namespace longhaul
