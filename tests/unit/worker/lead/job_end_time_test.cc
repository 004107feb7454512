#include "worker/lead/job_end_time.h"

#include <doctest/doctest.h>

using namespace longhaul;

TEST_CASE("the end of a job's time, as squeue says it") {
  CHECK(*parse_job_end_time("1790000000\n") == 1'790'000'000'000);
  for (const char* none : {"N/A\n", "NONE", "Unknown"}) {
    const auto end = parse_job_end_time(none);
    REQUIRE(end.ok());
    CHECK(*end == 0);
  }
  for (const char* wrong : {"", "2026-11-22T10:00:00", "12x", "-5", "squeue: error"}) {
    const auto end = parse_job_end_time(wrong);
    REQUIRE(!end.ok());
    CHECK(end.error().code == ErrorCode::unavailable);
  }
}
