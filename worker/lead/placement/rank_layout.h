// With how many ranks on how many nodes a launch is laid out: as the stage asked for, or with fewer data-parallel
// replicas, where a training may shrink, has lost nodes and no spare is left. Pure. The number of nodes that the pool
// wants says which: a lead that takes over lays its launches out alike.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "resiliency/taxonomy/restart_tier.h"
#include "worker/lead/placement/launch_plan.h"

namespace longhaul {

struct RankLayout {
  ParallelDims dims;
  int ranks = 1, nodes = 1;
};
RankLayout rank_layout(const LeadOf& lead, const HostPool& hosts);

// What the training could go on with, with fewer replicas, on this many nodes. unsupported: nothing, and why.
Result<RankLayout> shrunken(const LeadOf& lead, int nodes);

// Whether it could without these hosts; part of what decide_tier asks for.
void offer_shrink(const LeadOf& lead, const HostPool& hosts, const std::vector<std::string>& hosts_lost,
                  TierOffers& offers);
// What it could go back to once `back` more nodes are there: more nodes than work now, all of them or a layout between;
// nullopt: nothing.
std::optional<RankLayout> grown(const LeadOf& lead, const HostPool& hosts, int back);
// After hosts were left: the largest layout that the others hold; those that it does not need become spares.
Status shrink(const LeadOf& lead, HostPool& hosts);

}  // namespace longhaul
