#include "resiliency/health/fleet_exchange.h"

#include <algorithm>

namespace longhaul {

std::map<std::string, std::vector<std::string>> exchange_partners(const std::vector<std::string>& hosts) {
  std::map<std::string, std::vector<std::string>> partners;
  for (std::size_t i = 0; i < hosts.size(); ++i)
    for (const std::size_t distance : {1U, 2U, 4U})
      if (distance < hosts.size()) partners[hosts[i]].push_back(hosts[(i + distance) % hosts.size()]);
  return partners;
}

std::map<std::string, double> network_figures(const std::vector<HostTransfer>& transfers) {
  std::map<std::string, double> sent, received, figures;
  const auto keep_best = [](std::map<std::string, double>& all, const std::string& host, double mb_per_s) {
    double& best = all.try_emplace(host, mb_per_s).first->second;
    best = std::max(best, mb_per_s);
  };
  for (const HostTransfer& one : transfers) {
    keep_best(sent, one.from, one.mb_per_s);
    keep_best(received, one.to, one.mb_per_s);
  }
  for (const auto& [host, mb_per_s] : sent)
    if (const auto other = received.find(host); other != received.end())
      figures[host] = std::min(mb_per_s, other->second);
  return figures;
}

}  // namespace longhaul
