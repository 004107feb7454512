#include "worker/lead/monitor/milestone_watch.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include "base/files/files.h"
#include "base/text/text.h"
#include "tests/support/scratch.h"
#include "worker/lead/next_round.h"

using namespace longhaul;

TEST_CASE("a milestone that appears is news once; at the first look those of earlier jobs are, too") {
  const testing::Scratch scratch;
  Attempt attempt;
  attempt.stage_dir = scratch.path();
  Task task;
  task.settings = Value::make_table();
  task.settings.set("steps", 100);
  ManualClock clock;
  const auto publish = [&](const char* name) {
    REQUIRE(make_directories(join_path(attempt.milestones_dir(), name)).ok());
  };
  MilestoneWatch none(attempt, task, clock);
  task.settings.set("milestone_every", 10);
  MilestoneWatch watch(attempt, task, clock);
  CHECK(!watch.look());
  publish("10");
  CHECK(!watch.look());  // a shared file system is not asked all the time
  clock.advance_ms(1001);
  CHECK(watch.look());
  CHECK(!none.look());
  clock.advance_ms(1001);
  CHECK(!watch.look());
  publish(".20.key");
  clock.advance_ms(1001);
  CHECK(!watch.look());
  publish("20");
  publish("30");
  clock.advance_ms(1001);
  CHECK(watch.look());
  MilestoneWatch next_job(attempt, task, clock);
  CHECK(next_job.look());
}

TEST_CASE("a round that is asked for begins after the one under way, and only where the lead has rounds") {
  const testing::Scratch scratch;
  const std::string reported = join_path(scratch.path(), "reported"), go = join_path(scratch.path(), "go");
  SystemClock clock;
  Logger log{"test", "", LogLevel::error};
  NextRound rounds({"/bin/sh", "-c", "echo round >> " + reported + "; until test -e " + go + "; do sleep 0.01; done"},
                   join_path(scratch.path(), "log"), {}, clock, log);
  const auto begun = [&] {
    const auto text = read_file(reported);
    return text.ok() ? split(*text, '\n').size() - 1 : 0;
  };
  const auto look_until = [&](std::size_t count) {
    const Deadline deadline(clock, 10'000);
    while (begun() < count && !deadline.passed()) {
      rounds.look();
      clock.sleep_ms(2);
    }
    return begun();
  };
  rounds.look();
  CHECK(!rounds.running());
  rounds.ask();
  CHECK(look_until(1) == 1);
  rounds.ask();
  rounds.ask();
  for (int i = 0; i < 5; ++i) rounds.look();
  CHECK(begun() == 1);
  REQUIRE(write_file_atomic(go, "").ok());
  CHECK(look_until(2) == 2);
  clock.sleep_ms(30);
  rounds.look();
  clock.sleep_ms(30);
  CHECK(begun() == 2);

  NextRound nobody({}, join_path(scratch.path(), "log"), {}, clock, log);
  nobody.ask();
  nobody.look();
  CHECK(!nobody.running());
}
