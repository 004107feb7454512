// A training that has taken nodes back is on trial with them until it has completed a step: what ends a launch before
// that may be theirs, and must then cost neither the training nor what it may spend on other faults. Pure.
//
// One launch that comes to nothing may be anybody's fault, two are the nodes'. Theirs at once is one that a node of
// them was lost or hung in (another try would take as long), and one after which the policy would end the training: it
// went on before they came.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "resiliency/taxonomy/restart_tier.h"

namespace longhaul {

// Whether this tier is another launch of the same job.
bool launches_again(RestartTier tier);

class GrowthTrial {
 public:
  static constexpr int launches_max = 2;

  // The next launch is the first with these nodes.
  void begin(std::vector<std::string> nodes, std::int64_t at_ms);
  // As another lead had it.
  static GrowthTrial of(std::vector<std::string> nodes, std::int64_t begun_ms, int launches);
  bool under_way() const { return !nodes_.empty(); }
  const std::vector<std::string>& nodes() const { return nodes_; }
  std::int64_t begun_ms() const { return begun_ms_; }
  bool has_any_of(const std::vector<std::string>& hosts) const;
  int launches() const { return launches_; }  // with them so far, the one under way among them

  void launched() { launches_ += under_way() ? 1 : 0; }
  void over() { nodes_.clear(), launches_ = 0; }  // they have proved themselves, or are gone
  // A launch has ended without a step, of a fault as the policy would see it: whether it is theirs.
  bool is_theirs(const FaultView& fault, bool lost_or_hung) const;
  // Whatever it was, they are left for it.
  void blame(FaultView& fault) const;
  // What was tried in vain with them counts as nobody's try.
  void forgive(TierHistory& history) const;

 private:
  std::vector<std::string> nodes_;
  std::int64_t begun_ms_ = 0;
  int launches_ = 0;
};

}  // namespace longhaul
