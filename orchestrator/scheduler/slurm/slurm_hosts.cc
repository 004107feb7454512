// Which hosts there are for jobs, and which of them a waiting job leaves out.
#include "orchestrator/scheduler/slurm/slurm_hosts.h"

#include <algorithm>

#include "base/text/text.h"
#include "orchestrator/scheduler/slurm/slurm_scheduler.h"

namespace longhaul {
namespace {

// "MIXED+DRAIN", "DOWN+NOT_RESPONDING". Who is busy, reserved or asleep will be given to jobs again.
bool is_usable(const SlurmNode& node) {
  const std::vector<std::string> words = split(node.state, '+');
  return std::none_of(words.begin(), words.end(), [](const std::string& word) {
    for (const char* out : {"DOWN", "NOT_RESPONDING", "FAIL", "FAILING", "ERROR", "FUTURE", "UNKNOWN"})
      if (word == out) return true;
    return starts_with(word, "DRAIN") || starts_with(word, "INVAL");
  });
}

std::vector<std::string> words_of(const std::string& list) {
  return list.empty() || list == "(null)" ? std::vector<std::string>() : split(list, ',');
}

}  // namespace

std::vector<HostSeen> hosts_of(const std::vector<SlurmNode>& nodes, const std::vector<SlurmPartition>& partitions) {
  std::vector<HostSeen> hosts;
  for (const SlurmNode& node : nodes) {
    HostSeen host{node.name, is_usable(node), words_of(node.partitions), words_of(node.features)};
    const bool by_default = std::any_of(partitions.begin(), partitions.end(), [&](const SlurmPartition& partition) {
      return partition.is_default &&
             std::find(host.partitions.begin(), host.partitions.end(), partition.name) != host.partitions.end();
    });
    if (by_default) host.partitions.emplace_back();
    hosts.push_back(std::move(host));
  }
  return hosts;
}

Result<std::vector<HostSeen>> SlurmScheduler::hosts() {
  LH_TRY(const auto nodes, port_->nodes());
  LH_TRY(const auto partitions, port_->partitions());
  return hosts_of(nodes, partitions);
}

Status SlurmScheduler::exclude_only(const std::string& id, const std::vector<std::string>& hosts) {
  if (!is_job_id(id)) return make_error(ErrorCode::not_found, "'" + id + "' is no job of Slurm");
  return port_->update(id, {{"excluded_nodes", join(hosts, ",")}});
}

}  // namespace longhaul
