// When a job is ended by force, as its lead knows it, and the grace that its ranks have because of that.
#include "worker/lead/failover/job_deadline.h"

#include <doctest/doctest.h>

using namespace longhaul;

namespace {
namespace job_deadline {

constexpr std::int64_t hour_ms = 3'600'000;

struct Rig {
  ManualClock clock;
  Logger log = Logger("test", "", LogLevel::error);
  JobDeadline deadline = JobDeadline("", clock, log);
  std::int64_t start_ms = clock.wall_ms();

  Rig() { deadline.begin(clock.monotonic_ns(), 10, "n1"); }
  bool take(std::int64_t length_ms) { return deadline.take({start_ms, start_ms + length_ms}); }
};

}  // namespace job_deadline
}  // namespace

TEST_CASE("job deadline: it is known once the scheduler has said it, and passed on once") {
  job_deadline::Rig rig;
  CHECK(!rig.deadline.is_known());
  CHECK(!rig.deadline.take_moved());
  CHECK(!rig.take(2 * job_deadline::hour_ms));  // the first answer is no earlier than another
  CHECK(rig.deadline.left_ms() == 2 * job_deadline::hour_ms);
  CHECK(rig.deadline.take_moved());
  CHECK(!rig.deadline.take_moved());
}

TEST_CASE("job deadline: an end that moves up by more than its rounding is a preemption, one that moves back is none") {
  job_deadline::Rig rig;
  rig.take(2 * job_deadline::hour_ms);
  (void)rig.deadline.take_moved();
  CHECK(!rig.take(2 * job_deadline::hour_ms - 1'000));
  CHECK(!rig.take(3 * job_deadline::hour_ms));
  CHECK(!rig.deadline.preempted());
  CHECK(rig.deadline.left_ms() == 2 * job_deadline::hour_ms - 1'000);  // the earliest counts
  CHECK(rig.take(60'000));
  CHECK(rig.deadline.preempted());
  CHECK(rig.deadline.left_ms() == 60'000);
}

TEST_CASE("job deadline: a job that has no time left is being ended, and not preempted") {
  job_deadline::Rig rig;
  rig.take(2 * job_deadline::hour_ms);
  CHECK(rig.take(JobDeadline::ends_now_ms));
  CHECK(!rig.deadline.preempted());
  CHECK(rig.deadline.ends_now());
  CHECK(rig.deadline.leaves_no_time());
}

TEST_CASE(
    "job deadline: at the wall time ranks have what is left less the record's time, and never less than the grace") {
  job_deadline::Rig rig;
  rig.take(60'000);
  rig.deadline.allow_what_is_left();
  CHECK(rig.deadline.grace_s() == doctest::Approx(50));
  CHECK(rig.deadline.left_ms() == 50'000);
  rig.clock.advance_ms(5'000);
  rig.deadline.allow_grace();  // a SIGTERM after it
  CHECK(rig.deadline.grace_s() == doctest::Approx(10));
  CHECK(rig.deadline.left_ms() == 10'000);

  job_deadline::Rig late;
  late.take(12'000);
  late.deadline.allow_what_is_left();
  CHECK(late.deadline.grace_s() == doctest::Approx(10));
}

TEST_CASE("job deadline: a lead that takes over goes on with the end that the one before knew") {
  job_deadline::Rig rig;
  rig.deadline.take_over(0);
  CHECK(!rig.deadline.is_known());
  CHECK(!rig.deadline.take_moved());
  rig.deadline.take_over(rig.clock.monotonic_ns() + 90'000'000'000);
  CHECK(rig.deadline.left_ms() == 90'000);
  CHECK(rig.deadline.take_moved());
  CHECK(!rig.take(60'000));  // within the minute by which two hosts' clocks may differ
  CHECK(rig.take(20'000));
}
