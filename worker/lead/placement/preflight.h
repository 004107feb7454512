// Which nodes get no ranks at the first launch: those that are not fit to work on, and those that are slow, while
// others are there in their place. Pure.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "contracts/settings/job/resiliency.h"
#include "worker/lead/placement/host_pool.h"

namespace longhaul {

// Whether the first launch waits until every node was looked at: where nothing could be done about what is found, and
// nothing is measured, it does not. A measurement beside ranks that start would be one of the ranks.
bool preflight_waits(const ResiliencySettings& settings);

// Unfit spares are left, too; slow ones are kept for a time when there is nothing better, and take no slow node's
// place. In the order in which they have to be left. Of nodes that nobody can stand in for the job makes do.
std::vector<std::string> nodes_to_set_aside(HostPool hosts, const std::set<std::string>& unfit,
                                            const std::set<std::string>& slow);

}  // namespace longhaul
