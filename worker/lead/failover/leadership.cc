#include "worker/lead/failover/leadership.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "base/text/text.h"
#include "contracts/control/control_times.h"
#include "worker/lead/agents/heard_hosts.h"

namespace longhaul {
namespace {

constexpr std::int64_t news_interval_ms = 10'000;  // to the standby, of what changes all the time

bool is_connected(const AgentTable& agents, const std::string& host) {
  const auto agent = agents.agents().find(host);
  return agent != agents.agents().end() && agent->second.connected;
}

}  // namespace

Leadership::Leadership(std::string own_node, std::string scheduler_job, Clock& clock, Logger& log)
    : own_node_(std::move(own_node)), scheduler_job_(std::move(scheduler_job)), clock_(clock), log_(log) {}

bool Leadership::check_superseded(AgentTable* agents) {
  if (agents && !superseded_) {
    agents->look_for_successor();
    superseded_ = agents->superseded();
    if (superseded_) log_.warn("event=superseded next=leave_all_to_the_new_lead");
  }
  return superseded_;
}

bool Leadership::has_majority(const AgentTable* agents, const HostPool& hosts) {
  if (!agents) return true;
  std::vector<std::string> voters;
  const std::set<std::string> heard = heard_hosts(agents->agents(), clock_.monotonic_ns());
  const std::vector<std::string> left = hosts.left();
  for (const auto& [host, agent] : agents->agents())
    if (std::find(left.begin(), left.end(), host) == left.end()) voters.push_back(host);
  if (vote_) vote_->note_heard(heard);
  if (is_majority(voters, heard, {})) return true;
  if (!vote_) vote_.emplace(ask_for_nodes_of(scheduler_job_), own_node_, clock_);
  return is_majority(voters, heard, vote_->look(voters));
}

std::optional<GuardFinding> Leadership::lost_by_scheduler(const AgentTable& agents, const HostPool& hosts,
                                                          std::int64_t step) const {
  if (!vote_) return std::nullopt;
  for (const std::string& host : vote_->gone()) {
    if (!hosts.is_working(host) || is_connected(agents, host)) continue;
    GuardFinding found;
    found.kind = GuardFinding::Kind::host_lost;
    found.host = host;
    found.step = step;
    found.cause = format("node {} is gone: the scheduler has taken it out of the job", host);
    return found;
  }
  return std::nullopt;
}

void Leadership::choose_standby(const AgentTable& agents, const HostPool& hosts) {
  if (is_connected(agents, standby_)) return;
  standby_.clear();
  for (const std::string& host : hosts.all())
    if (standby_.empty() && host != own_node_ && is_connected(agents, host)) standby_ = host;
  changed_ = true;
}

void Leadership::keep_standby(AgentTable& agents, const HostPool& hosts, int launch,
                              const std::function<LeadState()>& state) {
  const std::int64_t now = clock_.monotonic_ns();
  if (superseded_ || (now < next_ping_ns_ && !(changed_ && agents.connected() > 0))) return;
  next_ping_ns_ = now + ping_interval_ms * 1'000'000;
  agents.ping();
  choose_standby(agents, hosts);
  if (standby_.empty() || launch == 0) return;
  const AgentState& agent = agents.agents().at(standby_);
  if (agent.report.standby_port == 0) changed_ = true;  // an agent that was started anew knows nothing of it
  if (changed_ || now >= next_news_ns_) send_state(agents, state(), now);
  if (agent.report.standby_port == 0) return;
  // Sent again and again: agents come and go.
  AgentOrder order;
  order.kind = AgentOrder::Kind::standby;
  order.host = standby_, order.port = agent.report.standby_port;
  order.what = agent.peer.address;  // nobody who has lost us has to ask a name service
  agents.order_all(order);
}

void Leadership::send_state(AgentTable& agents, const LeadState& state, std::int64_t now_ns) {
  AgentOrder order;
  order.kind = AgentOrder::Kind::state;
  const std::size_t room = wire_body_max - wire_greeting_max;  // for what is around it
  const std::optional<Value> sent = changed_ ? lead_state_within(state, now_ns, clock_.wall_ms(), room)
                                             : lead_news_to_value(state, now_ns, clock_.wall_ms());
  if (sent) order.state = *sent;
  if (sent)
    agents.order(standby_, order);
  else
    log_.error("event=state_not_sent why='it is larger than a message may be' next=lead_without_a_standby");
  changed_ = false;
  next_news_ns_ = now_ns + news_interval_ms * 1'000'000;
}

}  // namespace longhaul
