#include "orchestrator/scheduler/slurm/lost_node.h"

#include <algorithm>

#include "base/text/text.h"
#include "contracts/records/host_list.h"

namespace longhaul {
namespace {

// "DOWN+NOT_RESPONDING", "IDLE+FAIL". A node that is merely drained has not left its jobs.
bool is_lost(const SlurmNode& node) {
  const std::vector<std::string> states = split(node.state, '+');
  return std::any_of(states.begin(), states.end(), [](const std::string& state) {
    return state == "DOWN" || state == "NOT_RESPONDING" || state == "FAIL" || state == "ERROR";
  });
}

}  // namespace

std::string lost_node(const std::string& job_nodes, const std::vector<SlurmNode>& nodes) {
  const auto names = expand_host_list(job_nodes);
  if (!names.ok()) return {};
  std::string lost;
  for (const SlurmNode& node : nodes) {
    if (!is_lost(node) || std::find(names->begin(), names->end(), node.name) == names->end()) continue;
    if (!lost.empty()) return {};
    lost = node.name;
  }
  return lost;
}

}  // namespace longhaul
