// What SlurmScheduler makes of refusals that pass, of states and reasons that it does not act upon, and of
// cancellations that were not the run's.
#include <unistd.h>

#include "orchestrator/scheduler/names/refusals.h"
#include "tests/unit/orchestrator/scheduler/slurm_world.h"

namespace longhaul {

TEST_CASE("slurm: a submission that was refused is not looked for, and is accepted as soon as the limit has passed") {
  SlurmWorld world;
  world.slurm.refuse = [](const SlurmSubmission&) {
    return refusal_error("QOSMaxSubmitJobPerUserLimit; Job violates accounting/QOS policy", Refusal::limit);
  };
  const JobSpec spec = world.job("k");
  const int before = world.slurm.queries();
  for (int i = 0; i < 3; ++i) {
    const auto refused = world.scheduler->submit_one(spec);
    REQUIRE_FALSE(refused.ok());
    CHECK(refusal_in(refused.error()) == Refusal::limit);
  }
  CHECK(world.slurm.queries() == before);
  world.slurm.refuse = nullptr;
  CHECK(world.scheduler->submit_one(spec).ok());  // without the time that an answer that was lost would take
  CHECK(world.slurm.submissions("k") == 1);
}

TEST_CASE("slurm: why a job does not start by itself is reported with what can be done") {
  SlurmWorld world({.nodes = 1});
  world.slurm.play = [](const std::string&, int) { return long_play(1); };
  REQUIRE(world.scheduler->submit_one(world.job("first")).ok());
  const auto id = world.scheduler->submit_one(world.job("k"));
  REQUIRE(id.ok());
  CHECK(world.look(world.open("k", *id))->advice.empty());
  world.slurm.hold_by_person(*id);
  const auto held = world.look(world.open("k", *id));
  CHECK(held->advice.find("scontrol release") != std::string::npos);
  CHECK_FALSE(held->held);
  CHECK_FALSE(held->given_up);
}

TEST_CASE(
    "slurm: a job whose lead has written that it was asked to stop is cancelled at once where nobody can say by whom") {
  struct Case {
    bool accounting, last_look;
    JobState state;
  };
  for (const Case& one :
       {Case{false, false, JobState::ended}, Case{true, false, JobState::running}, Case{true, true, JobState::ended}}) {
    CAPTURE(one.accounting);
    CAPTURE(one.last_look);
    SlurmWorld world({.accounting = one.accounting});
    world.last_look = one.last_look;
    world.new_controller();
    world.slurm.play = [](const std::string&, int) { return long_play(1); };
    const JobSpec spec = world.job("k");
    const auto id = world.scheduler->submit_one(spec);
    REQUIRE(id.ok());
    world.clock.advance_ms(1'000);
    leave_record(spec.attempt_dir, "cancelled");
    world.slurm.begin_to_end(*id, "CANCELLED");
    const auto seen = world.look(world.open("k", *id));
    REQUIRE(seen);
    CHECK(seen->state == one.state);
    CHECK(seen->end == (one.state == JobState::ended ? SchedulerEnd::cancelled : SchedulerEnd::none));
  }
}

TEST_CASE(
    "slurm: a cancellation by another user is distinguished from one by the run's own, where accounting says it") {
  struct Case {
    long long by;
    bool noted;  // the run has asked for it
    SchedulerEnd end;
  };
  const auto own = static_cast<long long>(::getuid());
  for (const Case& one :
       {Case{own, false, SchedulerEnd::cancelled}, Case{own + 1, false, SchedulerEnd::cancelled_by_site},
        Case{own + 1, true, SchedulerEnd::cancelled}, Case{-1, false, SchedulerEnd::cancelled}}) {
    CAPTURE(one.by);
    CAPTURE(one.noted);
    SlurmWorld world({.accounting = true});
    world.slurm.cancelled_by = one.by;
    world.slurm.play = [](const std::string&, int) {
      FakeSlurm::Play play;
      play.duration_ms = 5'000;
      play.state = "CANCELLED";
      return play;
    };
    const JobSpec spec = world.job("k");
    const auto id = world.scheduler->submit_one(spec);
    REQUIRE(id.ok());
    if (one.noted) REQUIRE(write_file_renamed(spec.attempt_dir + "/cancelled", "").ok());
    world.clock.advance_ms(10'000);
    auto ended = world.look(world.open("k", *id));
    REQUIRE(ended);
    if (one.by < 0) {                           // accounting does not say it yet: that is waited for
      CHECK(ended->state == JobState::queued);  // as it was last seen
      world.clock.advance_ms(SlurmWorld::grace_ms);
      ended = world.look(world.open("k", *id));
    }
    CHECK(ended->end == one.end);
  }
}

}  // namespace longhaul
