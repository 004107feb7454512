#include "worker/lead/monitor/timeout_watch.h"

#include <doctest/doctest.h>

#include "contracts/settings/job/resiliency.h"
#include "tests/unit/worker/reported_event.h"

using namespace longhaul;

namespace {

Attempt attempt_of_slurm() {
  Attempt attempt;
  attempt.resiliency = resiliency_for({}, "pretrain");
  attempt.launcher = {"/usr/bin/srun", "--mpi=pmix"};
  attempt.stop_before_s = 300;
  return attempt;
}

}  // namespace

TEST_CASE("timeout watch: nothing is reported where the hierarchy holds") {
  TimeoutWatch watch(attempt_of_slurm(), "pretrain");
  CHECK(watch.look().empty());
  watch.ends_in(3600);
  watch.take(SchedulerTimes{30, 300});
  watch.take(std::vector<Event>{saved_event(1, 20)});
  CHECK(watch.look().empty());
}

TEST_CASE("timeout watch: what a save takes, reported once, with what to change for the next job") {
  TimeoutWatch watch(attempt_of_slurm(), "pretrain");
  watch.take(std::vector<Event>{saved_event(10, 280)});
  const auto reported = watch.look();
  REQUIRE(reported.size() == 1);
  CHECK(reported[0].kind == "timeouts");
  CHECK(reported[0].text ==
        "the job's grace (300 s) is shorter than a final checkpoint and stopping a launch (305 s): the last checkpoint "
        "would be lost; for the next job: raise job.stop_before to 305 s or more");
  watch.take(std::vector<Event>{saved_event(10, 300)});
  CHECK(watch.look().empty());
  // Where the end is known a training stops in time by itself, if there is any time.
  TimeoutWatch known(attempt_of_slurm(), "pretrain");
  known.ends_in(310);
  known.take(std::vector<Event>{saved_event(10, 280)});
  CHECK(known.look().empty());
  known.take(std::vector<Event>{saved_event(10, 300)});
  const auto late = known.look();
  REQUIRE(late.size() == 1);
  CHECK(late[0].text.find("the wall time (310 s) is shorter than a final checkpoint and stopping a launch (325 s)") ==
        0);
}

TEST_CASE("timeout watch: what was learned, and what Slurm says of itself") {
  TimeoutWatch watch(attempt_of_slurm(), "pretrain");
  LearnedTimes learned;
  learned.note("evaluate", 130);
  watch.take(learned);
  watch.take(SchedulerTimes{3, 4});
  std::string texts;
  const auto reported = watch.look();
  for (const WarningEvent& one : reported) texts += one.text + "\n";
  CAPTURE(texts);
  REQUIRE(reported.size() == 3);
  CHECK(texts.find("SlurmdTimeout of Slurm (4 s) is shorter than the silence of a host (4.5 s)") != std::string::npos);
  CHECK(texts.find("the deadline of a collective (600 s) is shorter than the longest act that was learned (650 s)") !=
        std::string::npos);
  CHECK(texts.find("KillWait of Slurm (3 s) is shorter than stopping a launch (15 s): a cancelled job would end before "
                   "its ranks have\n") != std::string::npos);
  // Where a hang is not acted upon, or at a time that was set, nothing follows from what was learned.
  for (const bool is_set : {true, false}) {
    Attempt attempt = attempt_of_slurm();
    if (is_set)
      attempt.resiliency.hang_act = Seconds{60};
    else
      attempt.resiliency.on_hang = "report";
    TimeoutWatch other(attempt, "pretrain");
    other.take(learned);
    CHECK(other.look().empty());
  }
}

TEST_CASE("timeout watch: the time that a job was granted, after one that has reported it already") {
  Attempt attempt = attempt_of_slurm();
  attempt.resiliency.startup = Seconds{1200};
  TimeoutWatch watch(attempt, "command");  // whose end the notice alone announces
  watch.ends_in(1400);
  const auto reported = watch.look();
  REQUIRE(reported.size() == 1);
  CHECK(reported[0].text.find("the wall time (1400 s) is shorter than launch start-up and the job's grace (1500 s)") ==
        0);
  Event before;
  before.kind = "timeouts";
  before.fields = to_value(reported[0]);
  TimeoutWatch next(attempt, "command");
  next.ends_in(1400);
  next.take(std::vector<Event>{before});
  CHECK(next.look().empty());
}

TEST_CASE("KillWait and SlurmdTimeout, as scontrol prints them") {
  const SchedulerTimes times = parse_scheduler_times(
      "Configuration data as of 2026-11-22T10:00:00\nKillOnBadExit           = 0\nKillWait                = 30 sec\n"
      "SlurmdTimeout           = 300 sec\nSlurmctldTimeout        = 120 sec\nSrunPortRange           = 60001-63000\n");
  CHECK(times.srun_ports == PortRange{60001, 63000});
  CHECK(times.kill_wait_s == 30);
  CHECK(times.slurmd_timeout_s == 300);
  CHECK(parse_scheduler_times("").kill_wait_s == 0);
}
