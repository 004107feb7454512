#include "worker/agent/look_interval.h"

#include <doctest/doctest.h>

namespace longhaul {
namespace {

// Steps that take so long each, after which the interval is this.
std::int64_t interval_after(LookInterval& interval, std::int64_t step_ms, int steps, std::int64_t& now_ms,
                            std::int64_t& step) {
  for (int i = 0; i < steps; ++i) interval.note(now_ms += step_ms, ++step);
  return interval.ms(false);
}

}  // namespace

TEST_CASE(
    "an agent to which the kernel reports nothing looks four times in a step, at least three times and at most ten "
    "times a "
    "second") {
  LookInterval interval;
  std::int64_t now_ms = 5'000, step = 0;
  CHECK(interval.ms(false) == 100);  // nothing is known
  interval.note(now_ms, -1);
  CHECK(interval.ms(false) == 100);
  CHECK(interval_after(interval, 200, 20, now_ms, step) == 100);
  CHECK(interval_after(interval, 800, 1, now_ms, step) == 100);  // one long step may be a save
  CHECK(interval_after(interval, 800, 40, now_ms, step) == 199);
  CHECK(interval_after(interval, 30'000, 40, now_ms, step) == 300);
  CHECK(interval_after(interval, 600, 1, now_ms, step) == 150);  // shorter ones count at once
  CHECK(interval_after(interval, 10'000, 40, now_ms, step) == 300);
  CHECK(interval_after(interval, 200, 1, now_ms, step) == 100);
  CHECK(interval.ms(true) == 300);   // the kernel reports ends
  interval.note(now_ms + 5'000, 3);  // started anew: nothing is known
  CHECK(interval.ms(false) == 100);
}

}  // namespace longhaul
