// When the scheduler is asked again: politely. One question per interval while things change, slower and slower while
// nothing does (up to four times the interval), spread by a fifth so that many controllers do not ask in step.
#pragma once

#include <cstdint>

namespace longhaul {

class PollPace {
 public:
  // `interval_ms` 0: ask in every round.
  explicit PollPace(std::int64_t interval_ms = 0, std::uint64_t spread_seed = 0)
      : interval_ms_(interval_ms), seed_(spread_seed) {}

  bool due(std::int64_t now_ns) const { return interval_ms_ == 0 || now_ns >= next_ns_; }
  void asked(std::int64_t now_ns, bool changed);
  void ask_now() { next_ns_ = 0; }
  std::int64_t interval_ms() const { return interval_ms_; }

 private:
  std::int64_t interval_ms_;
  std::uint64_t seed_, asked_ = 0;
  std::int64_t pause_ms_ = 0, next_ns_ = 0;
};

}  // namespace longhaul
