// How often the scheduler is asked.
#include "orchestrator/controller/jobs/poll_pace.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace longhaul {
namespace {

// Seconds until it is due again, to a tenth.
double pause_s(const PollPace& pace, std::int64_t now_ns) {
  for (std::int64_t ms = 0; ms <= 1'000'000; ms += 100)
    if (pace.due(now_ns + ms * 1'000'000)) return static_cast<double>(ms) * 1e-3;
  return 1e9;
}

}  // namespace

TEST_CASE("poll pace: at once at first, then never before the interval, and slower while nothing changes") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    PollPace pace(30'000, seed);
    std::int64_t now_ns = 5'000'000'000;
    CHECK(pace.due(now_ns));
    const double least_s[] = {30, 45, 67.5, 101.25, 120, 120};  // half as long again, up to four times
    for (const double least : least_s) {
      pace.asked(now_ns, false);
      const double pause = pause_s(pace, now_ns);
      CHECK(pause >= least - 0.1);
      CHECK(pause <= least * 1.2 + 0.1);
      now_ns += static_cast<std::int64_t>(pause * 1e9);
    }
    pace.asked(now_ns, true);  // something happened: back to the interval
    CHECK(pause_s(pace, now_ns) <= 36.1);
    pace.ask_now();
    CHECK(pace.due(now_ns));
  }
}

TEST_CASE("poll pace: controllers of many runs do not ask in step") {
  double least = 1e9, most = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    PollPace pace(30'000, seed);
    pace.asked(0, true);
    least = std::min(least, pause_s(pace, 0));
    most = std::max(most, pause_s(pace, 0));
  }
  CHECK(most - least > 3);
}

TEST_CASE("poll pace: without an interval every round asks") {
  PollPace pace;
  pace.asked(1'000'000'000, false);
  CHECK(pace.due(0));
  CHECK(pace.interval_ms() == 0);
}

}  // namespace longhaul
