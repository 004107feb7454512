#include "worker/lead/placement/growth_trial.h"

#include <algorithm>
#include <utility>

#include "base/text/text.h"

namespace longhaul {

bool launches_again(RestartTier tier) {
  return tier == RestartTier::in_job || tier == RestartTier::swap || tier == RestartTier::shrink;
}

void GrowthTrial::begin(std::vector<std::string> nodes, std::int64_t at_ms) {
  nodes_ = std::move(nodes), begun_ms_ = at_ms, launches_ = 0;
}

GrowthTrial GrowthTrial::of(std::vector<std::string> nodes, std::int64_t begun_ms, int launches) {
  GrowthTrial trial;
  trial.begin(std::move(nodes), begun_ms);
  trial.launches_ = launches;
  return trial;
}

bool GrowthTrial::has_any_of(const std::vector<std::string>& hosts) const {
  return std::find_first_of(nodes_.begin(), nodes_.end(), hosts.begin(), hosts.end()) != nodes_.end();
}

bool GrowthTrial::is_theirs(const FaultView& fault, bool lost_or_hung) const {
  return under_way() && (launches_ >= launches_max || (lost_or_hung && has_any_of({fault.host})));
}

void GrowthTrial::blame(FaultView& fault) const {
  fault.scope = FaultScope::host, fault.group = FaultGroup::infrastructure;
  fault.host = nodes_.front();
  fault.cause = "no step with " + join(nodes_, ", ");
  for (const std::string& node : nodes_)
    if (std::find(fault.hosts_lost.begin(), fault.hosts_lost.end(), node) == fault.hosts_lost.end())
      fault.hosts_lost.push_back(node);
}

void GrowthTrial::forgive(TierHistory& history) const {
  for (PastRestart& past : history) past.forgiven |= past.at_ms >= begun_ms_;
}

}  // namespace longhaul
