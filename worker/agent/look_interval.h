// How often an agent looks at its pages. Where the kernel reports to it each rank that ends (ProcessWatch), every 0.3
// s: what else a look finds has time, and each costs its node some hundred microseconds of a core. Where it does not,
// four times in a step and between 0.1 s and 0.3 s, so that an end is found within half a second whatever a step takes.
// Pure: the time comes from outside.
#pragma once

#include <algorithm>
#include <cstdint>

namespace longhaul {

class LookInterval {
 public:
  static constexpr std::int64_t least_ms = 100, most_ms = 300, looks_a_step = 4;

  // The newest completed step of any rank of the node; below 0: none yet. A step that goes back begins anew.
  void note(std::int64_t now_ms, std::int64_t step) {
    if (step == step_) return;
    if (step < step_ || step_ < 0) {
      step_ms_ = 0;
    } else {
      // Shorter steps count at once, longer ones only once they have come several times.
      const double took = static_cast<double>(now_ms - at_ms_) / static_cast<double>(step - step_);
      step_ms_ = step_ms_ <= 0 ? took : std::min(took, 0.75 * step_ms_ + 0.25 * took);
    }
    step_ = step, at_ms_ = now_ms;
  }
  std::int64_t ms(bool ends_are_reported) const {
    if (ends_are_reported) return most_ms;
    return std::clamp(static_cast<std::int64_t>(step_ms_) / looks_a_step, least_ms, most_ms);
  }

 private:
  std::int64_t step_ = -1, at_ms_ = 0;
  double step_ms_ = 0;  // 0: not known
};

}  // namespace longhaul
