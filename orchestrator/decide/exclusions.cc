#include "orchestrator/decide/exclusions.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "base/text/text.h"
#include "contracts/records/host_list.h"

namespace longhaul {
namespace {

using Names = std::set<std::string>;

bool any_of_list(const std::string& list, const std::vector<std::string>& names) {
  const std::vector<std::string> wanted = list.empty() ? std::vector<std::string>{""} : split(list, ',');
  return std::any_of(wanted.begin(), wanted.end(), [&](const std::string& one) {
    return std::find(names.begin(), names.end(), trim(one)) != names.end();
  });
}

// Where more than names joined by '&' is asked for, which hosts have it is the scheduler's to say.
bool has_features(const HostSeen& host, const std::string& constraint) {
  if (constraint.empty() || constraint.find_first_of("|[]()*,!") != std::string::npos) return true;
  const std::vector<std::string> wanted = split(constraint, '&');
  return std::all_of(wanted.begin(), wanted.end(), [&](const std::string& feature) {
    return std::find(host.features.begin(), host.features.end(), trim(feature)) != host.features.end();
  });
}

std::vector<HostSeen> hosts_for(const HostNeed& need, const std::vector<HostSeen>& all) {
  Names unwanted;
  if (const auto names = expand_host_list(need.exclude); !need.exclude.empty() && names.ok())
    unwanted.insert(names->begin(), names->end());
  std::vector<HostSeen> hosts;
  for (const HostSeen& host : all)
    if (!unwanted.contains(host.name) && any_of_list(need.partition, host.partitions) &&
        has_features(host, need.constraint))
      hosts.push_back(host);
  return hosts;
}

// The least serious first.
void sort_by_weight(std::vector<NodeSuspicion>& suspects) {
  std::stable_sort(suspects.begin(), suspects.end(), [](const NodeSuspicion& a, const NodeSuspicion& b) {
    return std::tuple(a.lemon(), a.since_ms, a.node) < std::tuple(b.lemon(), b.since_ms, b.node);
  });
}

std::string no_room(const HostNeed& need, std::size_t there, std::size_t working) {
  return format("the job needs {} of {} hosts{}", need.nodes, there,
                working == there ? std::string() : format(", of which {} work", working));
}

// Suspicions of the hosts that a job leaves out; of some nothing may be known any more.
std::vector<NodeSuspicion> suspicions_of(const std::vector<std::string>& hosts,
                                         const std::vector<NodeSuspicion>& suspects) {
  std::vector<NodeSuspicion> found;
  for (const std::string& host : hosts) {
    const auto known =
        std::find_if(suspects.begin(), suspects.end(), [&](const NodeSuspicion& one) { return one.node == host; });
    NodeSuspicion expired;
    expired.node = host;
    found.push_back(known == suspects.end() ? expired : *known);
  }
  return found;
}

}  // namespace

std::vector<NodeSuspicion> suspects_of(const RunLedger& ledger, std::int64_t now_ms, std::int64_t expiry_ms) {
  std::vector<NodeEvidence> evidence;
  for (const LedgerStage& stage : ledger.stages)
    for (const LedgerAttempt& attempt : stage.attempts)
      add_evidence({attempt.node, fault_class_of(attempt.fault), attempt.ended_ms,
                    format("{}, attempt {}", stage.id, attempt.number), attempt.cause, attempt.nodes_left},
                   evidence);
  return suspect_nodes(evidence, now_ms, expiry_ms);
}

Exclusions choose_exclusions(std::vector<NodeSuspicion> suspects, const HostNeed& need,
                             const std::vector<HostSeen>& all) {
  sort_by_weight(suspects);
  const std::vector<HostSeen> there = hosts_for(need, all);
  Names excluded, used;
  for (const NodeSuspicion& suspect : suspects) excluded.insert(suspect.node);
  // First among the hosts that work, then among all.
  for (const bool also_down : {false, true}) {
    if (need.nodes <= 0 || there.empty()) break;
    std::size_t left = 0;
    for (const HostSeen& host : there)
      if ((host.usable || also_down) && !excluded.contains(host.name)) ++left;
    for (const NodeSuspicion& suspect : suspects) {
      if (left >= static_cast<std::size_t>(need.nodes)) break;
      const bool helps = std::any_of(there.begin(), there.end(), [&](const HostSeen& host) {
        return host.name == suspect.node && (host.usable || also_down);
      });
      if (helps && excluded.erase(suspect.node) > 0) used.insert(suspect.node), ++left;
    }
  }
  Exclusions chosen;
  for (const NodeSuspicion& suspect : suspects)
    (used.contains(suspect.node) ? chosen.used_all_the_same : chosen.hosts).push_back(suspect.node);
  std::sort(chosen.hosts.begin(), chosen.hosts.end());
  const auto working = std::count_if(there.begin(), there.end(), [](const HostSeen& host) { return host.usable; });
  if (!used.empty()) chosen.why = no_room(need, there.size(), static_cast<std::size_t>(working));
  return chosen;
}

Exclusions exclusions_for(const LedgerStage& stage, const std::vector<NodeSuspicion>& suspects, const HostNeed& need,
                          const std::vector<HostSeen>& all) {
  Exclusions chosen = choose_exclusions(suspects, need, all);
  for (std::size_t i = stage.attempts_before_reset; i < stage.attempts.size(); ++i) {
    const LedgerAttempt& past = stage.attempts[i];
    const auto left_out = [&](const std::string& host) {
      return std::find(chosen.hosts.begin(), chosen.hosts.end(), host) != chosen.hosts.end();
    };
    if (past.refused.empty() || past.exclude.empty() ||
        !std::all_of(past.exclude.begin(), past.exclude.end(), left_out))
      continue;
    chosen.used_all_the_same.insert(chosen.used_all_the_same.end(), chosen.hosts.begin(), chosen.hosts.end());
    chosen.hosts.clear();
    chosen.why = format("the scheduler refused a job without {}", join(past.exclude, ", "));
  }
  return chosen;
}

bool exclusion_may_be_the_reason(const std::string& reason) {
  for (const char* name : {"BadConstraints", "ReqNodeNotAvail", "Nodes_required_for_job"})
    if (reason.find(name) != std::string::npos) return true;
  return false;
}

std::optional<Exclusions> lift_exclusions(const WaitingJob& job, const std::vector<NodeSuspicion>& suspects,
                                          const HostNeed& need, const std::vector<HostSeen>& all) {
  if (job.exclude.empty() || job.waited_ms < no_room_patience_ms) return std::nullopt;
  std::vector<NodeSuspicion> excluded = suspicions_of(job.exclude, suspects);
  Exclusions chosen = choose_exclusions(excluded, need, all);
  if (!chosen.used_all_the_same.empty()) return chosen;
  if (job.waited_ms < reason_patience_ms || !exclusion_may_be_the_reason(job.reason)) return std::nullopt;
  sort_by_weight(excluded);
  const std::string& lifted = excluded.front().node;
  std::erase(chosen.hosts, lifted);
  chosen.used_all_the_same = {lifted};
  chosen.why =
      format("the job has waited for {} ({})", human_duration(static_cast<double>(job.waited_ms) * 1e-3), job.reason);
  return chosen;
}

bool hosts_matter(const RunLedger& ledger, bool job_ended_badly) {
  bool accused = job_ended_badly, asks = job_ended_badly;
  for (const LedgerStage& stage : ledger.stages) {
    for (const LedgerAttempt& attempt : stage.attempts)
      accused = accused || !attempt.node.empty() || !attempt.nodes_left.empty();
    const bool without = stage.newest() && !stage.newest()->exclude.empty();
    asks = asks || stage.state == StageState::waiting || stage.state == StageState::ready ||
           (stage.state == StageState::submitted && without) ||
           (stage.state == StageState::running && !stage.successor);
  }
  return accused && asks;
}

void put_exclusions(const Exclusions& chosen, Value& fields) {
  const auto put = [&](const char* key, const std::vector<std::string>& hosts) {
    if (!hosts.empty()) fields.set(key, ValueArray(hosts.begin(), hosts.end()));
  };
  put("exclude", chosen.hosts);
  put("used_all_the_same", chosen.used_all_the_same);
  if (!chosen.why.empty()) fields.set("why", chosen.why);
}

}  // namespace longhaul
