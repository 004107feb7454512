// Times of day that one host sends to another, as the other's own clock had them: two hosts never compare their clocks,
// for one of them may be off by hours. With the times goes what the clock of the first said when it sent them
// (`told_ms`), and the second notes what its own says when they arrive. What was between is the way, some milliseconds.
#pragma once

#include <cstdint>

#include "base/value/value.h"

namespace longhaul {

void note_arrival(std::int64_t now_ns, std::int64_t now_ms, Value& report);

class ReportedTimes {
 public:
  // Of what has no arrival noted every time stays as it is.
  explicit ReportedTimes(const Value& report);
  // 0 stays 0: not known.
  std::int64_t here_ms(std::int64_t there_ms) const { return there_ms == 0 ? 0 : there_ms + ahead_ms_; }
  std::int64_t arrived_ns() const { return arrived_ns_; }  // CLOCK_MONOTONIC of this host

 private:
  std::int64_t ahead_ms_ = 0, arrived_ns_ = 0;
};

}  // namespace longhaul
