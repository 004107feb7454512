#include "resiliency/inject/fault_schedule.h"

#include <cmath>

#include "base/digest/philox.h"

namespace longhaul {

std::vector<FaultRequest> scheduled_faults(const FaultSchedule& schedule, int ranks) {
  std::vector<FaultRequest> faults;
  if (schedule.names.empty()) return faults;
  const auto seed = static_cast<std::uint64_t>(schedule.seed);
  const Philox gaps{seed, 1};
  PhiloxSequence draws(seed, 2);
  double at_s = 0;
  for (int i = 0; i < schedule.count; ++i) {
    const double exponential = -std::log1p(-gaps.uniform_double(static_cast<std::uint64_t>(i)));
    at_s += schedule.every.value * (0.1 + 0.9 * exponential);
    FaultRequest fault;
    fault.name = schedule.names[draws.next_below(schedule.names.size())];
    fault.rank = static_cast<int>(draws.next_below(static_cast<std::uint64_t>(ranks)));
    fault.after = {at_s};
    if (fault.name == "xid") fault.xid = schedule.xid;
    faults.push_back(std::move(fault));
  }
  return faults;
}

}  // namespace longhaul
