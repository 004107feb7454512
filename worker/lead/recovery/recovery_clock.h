// Where the time between a fault and the next completed step goes. Pure: fed with times and with what the ranks' pages
// show. One recovery at a time; a second fault before the first step is done continues it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "contracts/events/fault_event.h"
#include "worker/protocol/node/node_report.h"

namespace longhaul {

class RecoveryClock {
 public:
  // `silent_s`: since the culprit's last heartbeat; `step`: newest under way in any rank, -1: none.
  void fault(std::int64_t now_ms, double silent_s, std::int64_t step);
  void stopped(std::int64_t now_ms);  // the last rank of the faulty launch is gone
  // `epoch`: where they go on in-process, that to which they were ordered; 0: new processes.
  void launched(int launch, int ranks, std::int64_t epoch = 0);
  // The ranks of the launch; the event once one of those that have come to the epoch has completed a step.
  std::optional<RecoveredEvent> look(std::int64_t now_ms, const std::map<int, RankReport>& ranks);
  bool under_way() const { return fault_ms_.has_value(); }

 private:
  std::optional<std::int64_t> fault_ms_, stopped_ms_, started_ms_, loaded_ms_;
  std::int64_t detected_ms_ = 0, newest_ms_ = 0, step_before_ = -1, first_step_ = -1, epoch_ = 0;
  int launch_ = 0, ranks_ = 0;
};

}  // namespace longhaul
