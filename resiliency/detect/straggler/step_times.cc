#include "resiliency/detect/straggler/step_times.h"

#include <algorithm>

namespace longhaul {

bool StepTimes::observe(const std::vector<RankObservation>& ranks) {
  std::int64_t least = INT64_MAX;
  for (const RankObservation& seen : ranks) {
    if (!seen.seen || seen.rank < 0 || static_cast<std::size_t>(seen.rank) >= ranks_.size()) continue;
    Rank& one = ranks_[static_cast<std::size_t>(seen.rank)];
    one.step = seen.beat.step, one.computed_ns = seen.beat.computed_ns;
    if (!one.known || one.step < one.last_step || one.computed_ns < one.last_ns)  // new, rolled back, started anew
      one.known = true, one.last_step = one.step, one.last_ns = one.computed_ns;
    least = std::min(least, one.step - one.last_step);
  }
  if (least == INT64_MAX || least < 1) return false;
  step_ = -1, steps_ = least;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    Rank& one = ranks_[rank];
    seconds_[rank] = 0;
    if (!one.known || one.step <= one.last_step) continue;
    seconds_[rank] = static_cast<float>(1e-9 * static_cast<double>(one.computed_ns - one.last_ns) /
                                        static_cast<double>(one.step - one.last_step));
    one.last_step = one.step, one.last_ns = one.computed_ns;
    step_ = std::max(step_, one.step);
  }
  return true;
}

}  // namespace longhaul
