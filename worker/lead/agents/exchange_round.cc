#include "worker/lead/agents/exchange_round.h"

#include <algorithm>

#include "resiliency/health/fleet_exchange.h"
#include "worker/protocol/wire/host_address.h"

namespace longhaul {
namespace {

constexpr std::size_t hosts_min = 3;

AgentOrder exchange_order(const std::string& token) {
  AgentOrder order;
  order.kind = AgentOrder::Kind::exchange;
  order.id = token;
  return order;
}

// Where the lead has seen its agent come from; its name where that was this host.
std::string way_to(const AgentTable& agents, const std::string& host) {
  const std::string& seen = agents.agents().at(host).peer.address;
  return seen.empty() || is_loopback_address(seen) ? host : seen;
}

}  // namespace

ExchangeRound::ExchangeRound(AgentTable& agents, std::string token) : agents_(agents), token_(std::move(token)) {
  for (const auto& [host, agent] : agents_.agents())
    if (agent.connected) hosts_.push_back(host);
  if (hosts_.size() < hosts_min || token_.empty()) hosts_.clear();
  for (const std::string& host : hosts_) agents_.order(host, exchange_order(token_));
}

bool ExchangeRound::all(bool (*condition)(const NodeReport&)) const {
  return std::all_of(hosts_.begin(), hosts_.end(),
                     [&](const std::string& host) { return condition(agents_.agents().at(host).report); });
}

bool ExchangeRound::look() {
  if (hosts_.empty()) return true;
  if (!announced_) {
    if (!all([](const NodeReport& report) { return report.exchange_port > 0; })) return false;
    send_partners();
  }
  return all([](const NodeReport& report) { return report.exchange_done; });
}

void ExchangeRound::send_partners() {
  for (const auto& [host, partners] : exchange_partners(hosts_)) {
    AgentOrder order = exchange_order(token_);
    for (const std::string& partner : partners)
      order.partners.push_back({partner, way_to(agents_, partner), agents_.agents().at(partner).report.exchange_port});
    agents_.order(host, order);
  }
  announced_ = true;
}

std::map<std::string, double> ExchangeRound::figures() const {
  std::vector<HostTransfer> transfers;
  if (announced_)
    for (const std::string& host : hosts_)
      for (const ExchangeFigure& one : agents_.agents().at(host).report.exchanged)
        transfers.push_back({host, one.to, one.mb_per_s});
  return network_figures(transfers);
}

void ExchangeRound::end() {
  for (const std::string& host : hosts_) agents_.order(host, exchange_order(""));
}

}  // namespace longhaul
