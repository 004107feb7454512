// Since when a rank stands still, and for how long it may: the two things that a hang is judged by, each alone.
#include "resiliency/detect/hang/rank_movement.h"

#include <doctest/doctest.h>

namespace longhaul {
namespace {

RankObservation running(const std::string& section, std::int64_t step) {
  RankObservation seen;
  seen.rank = 0, seen.host = "n0", seen.seen = true, seen.process = ProcessState::running;
  seen.beat.section = section, seen.beat.step = step, seen.beat.waits_in = beat_waits_nowhere;
  return seen;
}

TEST_CASE("a rank stands still since it moved, without the time in which nothing was heard of its host") {
  StandstillLimits limits{HangTimeouts{}};
  RankMovement movement{CulpritOptions{}};
  movement.new_launch(0);
  RankObservation seen = running("micro_batch", 1);
  movement.observe(1'000, {seen}, limits);
  CHECK(movement.moved_ms(0) == 1'000);
  seen.idle_ms = 1'000;
  movement.observe(2'000, {seen}, limits);
  CHECK(movement.idle_s(2'000, seen) == doctest::Approx(1));
  seen.idle_ms = 11'000;
  movement.observe(12'000, {seen}, limits);  // nobody looked for 10 s
  CHECK(movement.idle_s(12'000, seen) == doctest::Approx(1));
  seen.beat.step = 2, seen.idle_ms = 0;
  movement.observe(13'000, {seen}, limits);
  CHECK(movement.idle_s(13'000, seen) == 0);
  seen.rank = 1, seen.idle_ms = 500, seen.silent_ms = 3'000;  // its page as it was 3 s ago
  movement.observe(20'000, {seen}, limits);
  CHECK(movement.moved_ms(1) == 16'500);
}

TEST_CASE("a wait for a file system counts only as long as it lasts") {
  StandstillLimits limits{HangTimeouts{}};
  RankMovement movement{CulpritOptions{}};
  movement.new_launch(0);
  RankObservation seen = running("load", 1);
  movement.observe(1'000, {seen}, limits);
  seen.process = ProcessState::blocked, seen.idle_ms = 1'000;
  movement.observe(2'000, {seen}, limits);
  CHECK(movement.waits_for_storage(seen));
  CHECK(movement.idle_s(2'000, seen) == doctest::Approx(1));
  seen.process = ProcessState::running, seen.idle_ms = 1'500;
  movement.observe(2'500, {seen}, limits);
  CHECK(movement.idle_s(2'500, seen) == doctest::Approx(0.5));
}

TEST_CASE("limits have the start-up time until the launch is warm, and are learned after it") {
  HangTimeouts timeouts;
  timeouts.warm_up_steps = 2, timeouts.floor_s = 5;
  StandstillLimits limits(timeouts);
  limits.note_step_time(9);  // not warm: it teaches nothing
  CHECK(limits.step_s() == 0);
  CHECK(limits.seconds(HangLevel::act, "micro_batch") == 600);
  limits.note_steps(2);
  limits.note_step_time(2);
  limits.note_stay("micro_batch", 2);
  CHECK(limits.step_s() == 2);
  CHECK(limits.seconds(HangLevel::suspect, "micro_batch") == 5);
  CHECK(limits.seconds(HangLevel::act, "micro_batch") == 10);
  CHECK(limits.seconds(HangLevel::act, "load") == 600);  // nobody has timed it
  limits.restarted();
  CHECK(limits.seconds(HangLevel::act, "micro_batch") == 10);
  limits.new_launch();
  CHECK(limits.seconds(HangLevel::act, "micro_batch") == 600);
}

}  // namespace
}  // namespace longhaul
