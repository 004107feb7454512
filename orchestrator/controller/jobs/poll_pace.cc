#include "orchestrator/controller/jobs/poll_pace.h"

#include <algorithm>

#include "base/digest/philox.h"

namespace longhaul {

void PollPace::asked(std::int64_t now_ns, bool changed) {
  if (interval_ms_ == 0) return;
  pause_ms_ = changed || pause_ms_ == 0 ? interval_ms_ : std::min(pause_ms_ + pause_ms_ / 2, interval_ms_ * 4);
  const double spread = 0.2 * Philox{seed_, 0}.uniform_double(asked_++);  // never earlier than the interval
  next_ns_ = now_ns + static_cast<std::int64_t>(static_cast<double>(pause_ms_) * (1.0 + spread)) * 1'000'000;
}

}  // namespace longhaul
