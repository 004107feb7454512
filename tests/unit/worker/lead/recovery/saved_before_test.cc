// What a lead knows to be saved before any of its ranks says so.
#include "worker/lead/recovery/saved_before.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

void leave_saved(const std::string& folder, int restarts, std::optional<std::int64_t> step) {
  JobRecord record;
  record.outcome = "failed";
  record.saved_step = step;
  REQUIRE(make_directories(folder).ok());
  REQUIRE(write_record(join_path(folder, record_file_name(restarts)), record).ok());
}

}  // namespace

TEST_CASE("what was saved before is said by the job right before, else by the run's log") {
  const testing::Scratch scratch;
  Attempt attempt;
  attempt.attempt = 3;
  attempt.attempt_dir = scratch.file("attempts/3");
  CHECK(step_left_by_earlier(attempt, 0) == -1);
  attempt.at_least_step = 500;
  CHECK(step_left_by_earlier(attempt, 0) == 500);
  leave_saved(scratch.file("attempts/1"), 0, 900);  // not the one right before: what came between is not known
  CHECK(step_left_by_earlier(attempt, 0) == 500);
  leave_saved(scratch.file("attempts/2"), 0, 600);
  CHECK(step_left_by_earlier(attempt, 0) == 600);
  leave_saved(scratch.file("attempts/2"), 2, 450);  // its newest life; 600 was ruled out
  CHECK(step_left_by_earlier(attempt, 0) == 450);
  leave_saved(attempt.attempt_dir, 0, 700);
  CHECK(step_left_by_earlier(attempt, 0) == 450);  // that is ours
  CHECK(step_left_by_earlier(attempt, 1) == 700);  // an earlier life of this job
}

TEST_CASE("a record that says nothing of what was saved leaves it to the run's log") {
  const testing::Scratch scratch;
  Attempt attempt;
  attempt.attempt = 2, attempt.at_least_step = 80;
  attempt.attempt_dir = scratch.file("attempts/2");
  leave_saved(scratch.file("attempts/1"), 0, std::nullopt);
  CHECK(step_left_by_earlier(attempt, 0) == 80);
}

}  // namespace longhaul
