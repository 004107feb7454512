#include "base/system/clock.h"

#include <doctest/doctest.h>

namespace longhaul {

TEST_CASE("wall time is written as UTC") {
  CHECK(utc_text(0) == "1970-01-01T00:00:00.000Z");
  CHECK(utc_text(1'772'424'669'201) == "2026-03-02T04:11:09.201Z");
  CHECK(compact_utc_text(1'772'424'669'201) == "20260302-041109");
}

TEST_CASE("a deadline follows the clock that it was given") {
  ManualClock clock(1000);
  const Deadline deadline(clock, 50);
  CHECK_FALSE(deadline.passed());
  CHECK(deadline.left_ms() == 50);
  clock.sleep_ms(49);
  CHECK_FALSE(deadline.passed());
  CHECK(deadline.left_ms() == 1);
  clock.advance_ms(1);
  CHECK(deadline.passed());
  CHECK(deadline.left_ms() == 0);
  clock.advance_ms(1000);
  CHECK(deadline.left_ms() == 0);
  CHECK(clock.wall_ms() == 2050);
}

TEST_CASE("the system's monotonic clock moves on while it sleeps") {
  SystemClock clock;
  const std::int64_t before = clock.monotonic_ns();
  clock.sleep_ms(5);
  CHECK(clock.monotonic_ns() - before >= 5'000'000);
  CHECK(clock.wall_ms() > 1'700'000'000'000);
}

}  // namespace longhaul
