// Room resiliency/detect/straggler
// Which ranks compute more slowly than their peers, or than they did.
// straggler_watch.h reads pages; step_times.h makes times of them; straggler_detector.h has the rule.
// It accuses no host: whether a slow host is left is a setting that the lead applies.
//
// Stragglers of a running launch: what ranks say on their pages, as findings with a host and a beginning. Which of them
// stand still open is kept, for whoever leaves slow hosts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "resiliency/detect/hang/rank_observation.h"
#include "resiliency/detect/straggler/step_times.h"
#include "resiliency/detect/straggler/straggler_detector.h"

namespace longhaul {

struct Straggler {
  StragglerFinding finding;
  std::string host;  // of the rank; "": the median of all
};

// Ranks that do not say how long they computed (HeartbeatPage::computed) are never found. One thread.
class StragglerWatch {
 public:
  // `group_of_rank`: as of StragglerDetector. Nothing of an earlier launch counts: ranks may stand on other hosts.
  void new_launch(std::vector<int> group_of_rank, const StragglerOptions& options = {});
  // What begins and what ends, each once. A step takes part when all ranks have done it.
  std::vector<Straggler> look(const std::vector<RankObservation>& ranks);
  // Of the ranks that are slow now, the slowest as it was when it was found.
  std::optional<Straggler> slowest() const;

 private:
  std::optional<StepTimes> times_;
  std::optional<StragglerDetector> detector_;
  std::map<int, Straggler> standing_;  // by rank; -1: all
};

}  // namespace longhaul
