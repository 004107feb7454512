#include "worker/lead/failover/majority_wait.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/text/text.h"
#include "worker/protocol/node/stand_in_turn.h"

namespace longhaul {
namespace {

constexpr std::int64_t by_themselves_ms = 500;  // then the scheduler is asked, too
constexpr std::int64_t ping_every_ms = 500;     // agents leave a lead that is silent for two seconds

std::vector<std::string> hosts_at_work(const HostPool& job_hosts) {
  const std::vector<std::string> left = job_hosts.left();
  std::vector<std::string> hosts = job_hosts.all();
  std::erase_if(hosts, [&](const auto& host) { return std::find(left.begin(), left.end(), host) != left.end(); });
  return hosts;
}

}  // namespace

Status wait_for_majority(AgentTable& agents, const HostPool& job_hosts, SchedulerVote& vote, Clock& clock,
                         Logger& log) {
  const std::vector<std::string> hosts = hosts_at_work(job_hosts);
  std::set<std::string> heard;
  std::int64_t next_ping_ns = 0;
  const auto look = [&] {
    agents.look();
    heard.clear();
    for (const auto& [host, agent] : agents.agents())
      if (agent.connected) heard.insert(host);
    if (clock.monotonic_ns() < next_ping_ns) return;
    agents.ping();
    next_ping_ns = clock.monotonic_ns() + ping_every_ms * 1'000'000;
  };
  const Deadline deadline(clock, stand_in_ms), by_themselves(clock, by_themselves_ms);
  for (; !deadline.passed() && !agents.superseded(); clock.sleep_ms(10)) {
    look();
    if (is_majority(hosts, heard, {})) return {};
    if (!by_themselves.passed()) continue;
    const std::set<std::string>& gone = vote.look(hosts);
    if (!is_majority(hosts, heard, gone)) continue;
    log.warn(format("event=majority_by_scheduler agents={} of={} gone='{}'", heard.size(), hosts.size(),
                    join({gone.begin(), gone.end()}, " ")));
    return {};
  }
  const char* const why = agents.superseded() ? "a later lead was there" : "no majority";
  log.warn(
      format("event=no_majority agents={} of={} why='{}' next=leave_the_lead_alone", heard.size(), hosts.size(), why));
  return make_error(ErrorCode::unavailable,
                    format("{} of {} agents have lost the lead: {}", heard.size(), hosts.size(), why));
}

}  // namespace longhaul
