#include "worker/lead/failover/job_end_time.h"

#include <doctest/doctest.h>

using namespace longhaul;

TEST_CASE("the times of a job, as squeue says them") {
  const auto times = parse_job_times("1789996400 1790000000\n");
  REQUIRE(times.ok());
  CHECK(times->start_ms == 1'789'996'400'000);
  CHECK(times->end_ms == 1'790'000'000'000);
  for (const char* none : {"1789996400 N/A\n", "N/A NONE", "N/A Unknown"}) {
    const auto end = parse_job_times(none);
    REQUIRE(end.ok());
    CHECK(end->end_ms == 0);
    CHECK(!time_left(*end, 0, 1'789'996'400'000));
  }
  for (const char* wrong : {"", "1790000000", "1 2 3", "2026-11-22T10:00:00 12", "1 12x", "1 -5", "squeue: error"}) {
    const auto end = parse_job_times(wrong);
    REQUIRE(!end.ok());
    CHECK(end.error().code == ErrorCode::unavailable);
  }
}

TEST_CASE("what a job has left is known on a host whose clock is hours off, too") {
  constexpr std::int64_t minute = 60'000, hour = 60 * minute, start = 1'790'000'000'000;
  const JobTimes day{start, start + 24 * hour};
  // The lead began 2 min after the job, and has worked for 4 h since.
  const std::int64_t elapsed = 4 * hour, now = start + 2 * minute + elapsed;
  const auto right = time_left(day, elapsed, now);
  REQUIRE(right);
  CHECK(right->ms == 20 * hour - 2 * minute);
  CHECK(right->clock_off_ms == 0);
  for (const std::int64_t off : {20 * hour, -20 * hour, 30 * minute, -30 * minute}) {
    CAPTURE(off);
    const auto left = time_left(day, elapsed, now + off);
    REQUIRE(left);
    CHECK(left->ms == 20 * hour);  // the 2 min before the lead are not known of
    CHECK(left->clock_off_ms == off + 2 * minute);
  }
  CHECK(time_left({0, start + hour}, 0, start)->ms == hour);  // no start is known: there is nothing to compare with
}
