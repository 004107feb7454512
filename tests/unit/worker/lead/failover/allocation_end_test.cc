#include "worker/lead/failover/allocation_end.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "tests/support/scratch.h"

using namespace longhaul;

TEST_CASE("allocation end: a job that Slurm has queued again goes on, unless another attempt does") {
  CHECK(allocation_end_arguments("77", true) == std::vector<std::string>{"scancel", "77"});
  CHECK(allocation_end_arguments("70_3", false) == std::vector<std::string>{"scancel", "--state=RUNNING", "70_3"});
}

TEST_CASE("allocation end: a later attempt is the next one of the stage, and no other") {
  const testing::Scratch scratch;
  Attempt attempt;
  attempt.attempt = 2;
  attempt.attempt_dir = join_path(scratch.path(), "attempts/2");
  REQUIRE(make_directories(attempt.attempt_dir).ok());
  REQUIRE(make_directories(join_path(scratch.path(), "attempts/1")).ok());
  CHECK_FALSE(has_later_attempt(attempt));
  REQUIRE(make_directories(join_path(scratch.path(), "attempts/3")).ok());
  CHECK(has_later_attempt(attempt));
}
