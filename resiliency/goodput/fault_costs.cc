#include "resiliency/goodput/fault_costs.h"

#include <utility>

namespace longhaul {

std::int64_t FaultCost::total_ms() const {
  std::int64_t total = 0;
  for (int time = 0; time < time_classes; ++time)
    if (time != static_cast<int>(TimeClass::training) && time != static_cast<int>(TimeClass::checkpoint_stall))
      total += ms[static_cast<std::size_t>(time)];
  return total;
}

void FaultCosts::begin(FaultCost cost, bool goes_on) {
  // What is still paid for belongs to the newest cost: one that has none comes before it.
  const bool before_newest = goes_on && open_ && !costs_.empty();
  ++faults_;
  open_ |= !goes_on;
  if (each_) costs_.insert(before_newest ? costs_.end() - 1 : costs_.end(), std::move(cost));
}

void FaultCosts::pay(TimeClass time, std::int64_t ms) {
  if (open_ && !costs_.empty()) costs_.back().ms[static_cast<std::size_t>(time)] += ms;
}

void FaultCosts::lose_steps(std::int64_t steps) {
  lost_steps_ += steps;
  if (open_ && !costs_.empty()) costs_.back().lost_steps += steps;
}

}  // namespace longhaul
