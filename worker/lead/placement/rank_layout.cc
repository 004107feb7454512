#include "worker/lead/placement/rank_layout.h"

#include <algorithm>

#include "base/text/text.h"
#include "contracts/plan/shrunken_layout.h"

namespace longhaul {

Result<RankLayout> shrunken(const LeadOf& lead, int nodes) {
  const Task& task = lead.task;
  const ResiliencySettings& settings = lead.attempt.resiliency;
  if (!settings.shrink) return make_error(ErrorCode::unsupported, "resiliency.shrink is false");
  if (!uses_job_nodes(lead) || !lead.attempt.steps.empty())
    return make_error(ErrorCode::unsupported, "the launcher starts no ranks on fewer nodes");
  LH_TRY(const ShrinkRules rules,
         shrink_rules_of(task.kind, task.settings, task.dims, task.resources.nodes, settings.min_replicas));
  const auto layout = shrunken_layout_on(rules, nodes);
  if (!layout)
    return make_error(ErrorCode::unsupported,
                      format("no layout with {} replica{} or more fits {} node{}", rules.min_replicas,
                             rules.min_replicas == 1 ? "" : "s", nodes, nodes == 1 ? "" : "s"));
  return RankLayout{layout->dims, layout->dims.world_size(), layout->nodes};
}

RankLayout rank_layout(const LeadOf& lead, const HostPool& hosts) {
  const TaskResources& asked = lead.task.resources;
  if (hosts.wanted() < asked.nodes)
    if (const auto fewer = shrunken(lead, hosts.wanted()); fewer.ok()) return *fewer;
  return {lead.task.dims, asked.ranks, asked.nodes};
}

void offer_shrink(const LeadOf& lead, const HostPool& hosts, const std::vector<std::string>& hosts_lost,
                  TierOffers& offers) {
  const auto is_lost = [&](const std::string& host) {
    return std::find(hosts_lost.begin(), hosts_lost.end(), host) != hosts_lost.end();
  };
  int nodes = 0;
  for (const std::vector<std::string>& some : {hosts.working(), hosts.spares()})
    nodes +=
        static_cast<int>(std::count_if(some.begin(), some.end(), [&](const auto& host) { return !is_lost(host); }));
  const auto layout = shrunken(lead, nodes);
  offers.shrink = {layout.ok(), layout.ok() ? "" : layout.error().what};
  if (!layout.ok()) return;
  // Ranks are laid out anew, so this is what is left, and nothing is to be taken off it.
  offers.dp_replicas = layout->dims.dp(), offers.dp_replicas_lost_by_host = 0;
  offers.dp_replicas_min = lead.attempt.resiliency.min_replicas;
}

std::optional<RankLayout> grown(const LeadOf& lead, const HostPool& hosts, int back) {
  const TaskResources& asked = lead.task.resources;
  const int nodes = static_cast<int>(hosts.working().size() + hosts.spares().size()) + back;
  RankLayout layout{lead.task.dims, asked.ranks, asked.nodes};
  if (nodes < asked.nodes) {
    const auto fewer = shrunken(lead, nodes);
    if (!fewer.ok()) return std::nullopt;
    layout = *fewer;
  }
  return layout.nodes > hosts.wanted() ? std::optional(layout) : std::nullopt;
}

Status shrink(const LeadOf& lead, HostPool& hosts) {
  LH_TRY(const RankLayout layout, shrunken(lead, static_cast<int>(hosts.working().size() + hosts.spares().size())));
  hosts.shrink_to(layout.nodes);
  return {};
}

}  // namespace longhaul
