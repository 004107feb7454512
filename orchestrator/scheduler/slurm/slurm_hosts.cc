#include "orchestrator/scheduler/slurm/slurm_hosts.h"

#include <algorithm>

#include "base/text/text.h"

namespace longhaul {
namespace {

// "MIXED+DRAIN", "DOWN+NOT_RESPONDING". Who is busy, reserved or asleep will be given to jobs again.
bool is_usable(const SlurmNode& node) {
  const std::vector<std::string> states = split(node.state, '+');
  return std::none_of(states.begin(), states.end(), [](const std::string& state) {
    for (const char* out : {"DOWN", "NOT_RESPONDING", "FAIL", "FAILING", "ERROR", "FUTURE", "UNKNOWN"})
      if (state == out) return true;
    return starts_with(state, "DRAIN") || starts_with(state, "INVAL");
  });
}

std::vector<std::string> names_of(const std::string& list) {
  return list.empty() || list == "(null)" ? std::vector<std::string>() : split(list, ',');
}

}  // namespace

std::vector<HostSeen> hosts_of(const std::vector<SlurmNode>& nodes, const std::vector<SlurmPartition>& partitions) {
  std::vector<HostSeen> hosts;
  for (const SlurmNode& node : nodes) {
    HostSeen host{node.name, is_usable(node), names_of(node.partitions), names_of(node.features)};
    const bool by_default = std::any_of(partitions.begin(), partitions.end(), [&](const SlurmPartition& partition) {
      return partition.is_default &&
             std::find(host.partitions.begin(), host.partitions.end(), partition.name) != host.partitions.end();
    });
    if (by_default) host.partitions.emplace_back();
    hosts.push_back(std::move(host));
  }
  return hosts;
}

}  // namespace longhaul
