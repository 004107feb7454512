#include "resiliency/detect/straggler/straggler_watch.h"

namespace longhaul {

void StragglerWatch::new_launch(std::vector<int> group_of_rank, const StragglerOptions& options) {
  times_.emplace(static_cast<int>(group_of_rank.size()));
  detector_.emplace(std::move(group_of_rank), options);
  standing_.clear();
}

std::vector<Straggler> StragglerWatch::look(const std::vector<RankObservation>& ranks) {
  std::vector<Straggler> found;
  if (!times_ || !times_->observe(ranks)) return found;
  for (const StragglerFinding& finding : detector_->observe(times_->step(), times_->seconds(), times_->steps())) {
    Straggler one{finding, {}};
    for (const RankObservation& rank : ranks)
      if (rank.rank == finding.rank) one.host = rank.host;
    if (finding.kind == StragglerFinding::Kind::over)
      standing_.erase(finding.rank);
    else
      standing_[finding.rank] = one;
    found.push_back(std::move(one));
  }
  return found;
}

std::optional<Straggler> StragglerWatch::slowest() const {
  std::optional<Straggler> worst;
  for (const auto& [rank, one] : standing_)
    if (rank >= 0 && (!worst || one.finding.slowdown > worst->finding.slowdown)) worst = one;
  return worst;
}

}  // namespace longhaul
