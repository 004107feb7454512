#include "worker/lead/placement/preflight.h"

namespace longhaul {

bool preflight_waits(const ResiliencySettings& settings) {
  if (settings.health == "off") return false;
  return settings.preflight_floor > 0 || !settings.health_command.empty() ||
         (settings.health == "act" && settings.spares > 0);
}

std::vector<std::string> nodes_to_set_aside(HostPool hosts, const std::set<std::string>& unfit,
                                            const std::set<std::string>& slow) {
  std::vector<std::string> aside;
  const auto leave = [&](const std::string& host) {
    hosts.leave(host);
    aside.push_back(host);
  };
  for (const std::string& host : hosts.spares())
    if (unfit.count(host)) leave(host);
  for (const std::string& host : hosts.working())
    if (unfit.count(host) && !hosts.spares().empty()) leave(host);
  for (const std::string& host : hosts.working())
    if (slow.count(host) && !unfit.count(host) && !hosts.spares().empty() && !slow.count(hosts.spares().front()))
      leave(host);
  return aside;
}

}  // namespace longhaul
