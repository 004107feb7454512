// When an agent looks at its node: as the ranks' steps ask for (look_interval.h), and more often for a while where
// somebody waits for what it will see. Pure; all times are CLOCK_MONOTONIC of this host, in nanoseconds.
#pragma once

#include <algorithm>
#include <cstdint>

#include "worker/agent/look_interval.h"

namespace longhaul {

class AgentPace {
 public:
  static constexpr std::int64_t hurried_look_ms = 50;

  // From now on, for so long.
  void hurry(std::int64_t now_ns, std::int64_t ms) {
    hurry_until_ns_ = std::max(hurry_until_ns_, now_ns + ms * 1'000'000);
    look_now();
  }
  bool hurries(std::int64_t now_ns) const { return now_ns < hurry_until_ns_; }
  void look_now() { next_look_ns_ = 0; }
  bool due(std::int64_t now_ns) const { return now_ns >= next_look_ns_; }
  std::int64_t next_look_ns() const { return next_look_ns_; }
  // The next look comes in its time. `calm`: there is a lead and no text to read, for programs that speak text are read
  // ten times a second (docs/contracts.md), and a lead is looked for often.
  void looked(std::int64_t now_ns, bool calm, bool ends_are_reported) {
    const std::int64_t interval_ms = hurries(now_ns) ? hurried_look_ms
                                     : calm          ? interval_.ms(ends_are_reported)
                                                     : LookInterval::least_ms;
    next_look_ns_ = now_ns + interval_ms * 1'000'000;
  }
  // The newest step of the ranks here.
  void note_step(std::int64_t now_ns, std::int64_t step) { interval_.note(now_ns / 1'000'000, step); }

 private:
  LookInterval interval_;
  std::int64_t next_look_ns_ = 0, hurry_until_ns_ = 0;
};

}  // namespace longhaul
