// How much of a job's newest two hours was training, as its lead sees it: the accounting of resiliency/goodput, fed
// with the events as they come. Each counts as of when it is heard, by the lead's own clock: ranks write their events
// by the clocks of their hosts, which may be hours off. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "base/value/value.h"
#include "contracts/events/event.h"
#include "resiliency/goodput/goodput_ledger.h"
#include "resiliency/taxonomy/goodput_floor.h"

namespace longhaul {

class GoodputWatch {
 public:
  // CLOCK_MONOTONIC of the lead's host in ms, here and below.
  explicit GoodputWatch(std::int64_t now_ms) : ledger_(now_ms, false) { window_.note(now_ms, 0); }

  void take(const std::vector<Event>& news, std::int64_t now_ms);
  // At a fault that happened detect_s ago, after `step`. Nothing is known of a training that has not taken a step, or
  // does not say so.
  RecentGoodput at_fault(std::int64_t now_ms, double detect_s, std::int64_t step) const;

  // For the lead that goes on with the job, on any host: times are given as how long ago they were.
  Value snapshot(std::int64_t now_ms) const;
  static GoodputWatch of(const Value& saved, std::int64_t now_ms);

 private:
  GoodputLedger ledger_;
  GoodputWindow window_;
  std::int64_t before_ms_ = 0;  // of training, under earlier leads
  bool trained_ = false;
};

}  // namespace longhaul
