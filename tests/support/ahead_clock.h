// The clock of a host whose time of day is 20 hours ahead of everybody else's.
#pragma once

#include "base/system/clock.h"

namespace longhaul::testing {

class AheadClock final : public Clock {
 public:
  std::int64_t wall_ms() const override { return real_.wall_ms() + 20 * 3'600'000; }
  std::int64_t monotonic_ns() const override { return real_.monotonic_ns(); }
  void sleep_ms(std::int64_t ms) override { real_.sleep_ms(ms); }

 private:
  SystemClock real_;
};

}  // namespace longhaul::testing
