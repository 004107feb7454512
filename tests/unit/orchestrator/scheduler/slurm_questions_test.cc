// How often Slurm is asked, and what is made of intents and records that time has overtaken.
#include "tests/unit/orchestrator/scheduler/slurm_world.h"

namespace longhaul {

TEST_CASE("slurm: what was cancelled before anybody knew of its submission is found, or never submitted") {
  SlurmWorld world;
  world.slurm.play = [](const std::string&, int) { return long_play(1); };
  world.slurm.answers_to_lose = 1;
  world.slurm.appears_after_ms = 9'000;
  REQUIRE_FALSE(world.scheduler->submit_one(world.job("late")).ok());
  JobSpec late = world.job("late", true), absent = world.job("absent", true), fresh = world.job("fresh");
  late.withdrawn = absent.withdrawn = fresh.withdrawn = true;
  world.new_controller();
  for (const JobSpec& spec : {late, absent, fresh})  // all of them may yet appear
    CHECK(world.scheduler->submit_one(spec).error().code == ErrorCode::unavailable);
  world.clock.advance_ms(9'000);
  const auto id = world.scheduler->submit_one(late);
  REQUIRE(id.ok());  // and the cancellation reaches it
  CHECK(world.scheduler->cancel(*id).ok());
  CHECK(world.look(world.open("late", *id))->end == SchedulerEnd::cancelled);
  CHECK(world.scheduler->submit_one(absent).error().code == ErrorCode::unavailable);
  world.clock.advance_ms(SlurmWorld::settle_ms);
  for (int i = 0; i < 2; ++i)
    for (const JobSpec& spec : {absent, fresh}) {
      const auto refused = world.scheduler->submit_one(spec);
      REQUIRE_FALSE(refused.ok());
      CHECK(refused.error().code == ErrorCode::invalid_input);
      CHECK(refused.error().what == "cancelled before it was submitted");
    }
  CHECK(world.slurm.submissions("late") == 1);
  CHECK(world.slurm.submissions("absent") == 0);
  CHECK(world.slurm.submissions("fresh") == 0);
}

TEST_CASE("slurm: a key that may be on its way is looked for a few times, not in every round, and then at once") {
  SlurmWorld world;
  world.new_controller();
  const int before = world.slurm.queries();
  constexpr int rounds = 150;
  for (int i = 0; i < rounds; ++i) {
    const auto on_its_way = world.scheduler->submit_one(world.job("k", true));
    REQUIRE_FALSE(on_its_way.ok());
    CHECK(on_its_way.error().code == ErrorCode::unavailable);
    world.clock.advance_ms(SlurmWorld::settle_ms / rounds);
  }
  CHECK(world.slurm.queries() >= before + 3);
  CHECK(world.slurm.queries() <= before + 6);
  CHECK(world.scheduler->submit_one(world.job("k", true)).ok());  // it is certain now, whenever the last look was
  CHECK(world.slurm.submissions("k") == 1);
}

TEST_CASE("slurm: looking for some keys in vain does not keep others waiting") {
  SlurmWorld world;
  const auto there = world.scheduler->submit_one(world.job("there"));
  world.new_controller();
  CHECK_FALSE(world.scheduler->submit_one(world.job("missing", true)).ok());
  CHECK(*world.scheduler->submit_one(world.job("there", true)) == *there);
  // Together: the one that is new here is looked for, and with it the other.
  const auto ids = world.scheduler->submit({world.job("missing", true), world.job("another", true)});
  CHECK_FALSE(ids[0].ok());
  CHECK_FALSE(ids[1].ok());
}

TEST_CASE("slurm: a cancellation that is refused is asked for again at the pace of snapshots, a silence at once") {
  SlurmWorld world;
  world.slurm.play = [](const std::string&, int) { return long_play(1); };
  const auto id = world.scheduler->submit_one(world.job("k")), other = world.scheduler->submit_one(world.job("other"));
  world.slurm.refuse_cancel = make_error(ErrorCode::invalid_input, "Access/permission denied");
  for (int second = 0; second < 90; ++second) {
    const Status refused = world.scheduler->cancel(*id);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().what == "Access/permission denied");
    world.clock.advance_ms(1'000);
  }
  CHECK(world.slurm.cancels() == 3);  // every 30 s
  world.slurm.refuse_cancel.reset();
  CHECK(world.scheduler->cancel(*other).ok());  // another one's refusal is not its own
  CHECK(world.scheduler->cancel(*id).ok());
  CHECK(world.look(world.open("k", *id))->end == SchedulerEnd::cancelled);

  const auto third = world.scheduler->submit_one(world.job("third"));
  world.slurm.refuse_cancel = make_error(ErrorCode::unavailable, "Unable to contact slurm controller");
  const int before = world.slurm.cancels();
  for (int i = 0; i < 5; ++i) CHECK_FALSE(world.scheduler->cancel(*third).ok());
  CHECK(world.slurm.cancels() == before + 5);
}

TEST_CASE("slurm: of a forgotten job that is known to have been queued again, the record of its first life is no end") {
  SlurmWorld world;
  leave_record(world.job("k").attempt_dir, "cancelled");
  OpenJob job = world.open("k", "7");
  job.restarts = 1;
  CHECK(world.look(job)->state == JobState::lost);
  world.new_controller();
  world.looked_at.clear();
  job.restarts = 0;
  CHECK(world.look(job)->state == JobState::ended);
}

TEST_CASE("slurm: a job that lost a node says which, and never one of those that are left") {
  struct Case {
    int nodes;
    bool seen_running, leaves_record;
    const char* lost;
  };
  // Slurm strikes the lost node off the job's list: who has not seen the job before cannot say.
  for (const Case& one : {Case{2, true, false, "n2"}, Case{2, true, true, "n2"}, Case{2, false, true, "n2"},
                          Case{2, false, false, ""}, Case{3, true, false, "n2"}, Case{1, true, false, "n1"}}) {
    CAPTURE(one.nodes);
    CAPTURE(one.seen_running);
    CAPTURE(one.leaves_record);
    SlurmWorld world({.nodes = 4});
    world.slurm.play = [&](const std::string&, int) {
      FakeSlurm::Play play;
      play.duration_ms = 5'000;
      play.nodes = one.nodes;
      play.state = "NODE_FAIL";
      play.leaves_record = false;
      return play;
    };
    const JobSpec spec = world.job("k");
    const auto id = world.scheduler->submit_one(spec);
    world.clock.advance_ms(3'000);
    world.new_controller();
    if (one.seen_running) CHECK(world.look(world.open("k", *id))->state == JobState::running);
    world.slurm.node_states = {{"n2", "DOWN+NOT_RESPONDING"}, {"n4", "DOWN"}};
    if (one.leaves_record) leave_record(spec.attempt_dir, "failed", one.nodes == 2 ? "n[1-2]" : "n[1-3]");
    world.clock.advance_ms(3 * SlurmWorld::grace_ms);
    const auto ended = world.look(world.open("k", *id));
    REQUIRE(ended);
    CHECK(ended->end == SchedulerEnd::node_fail);
    CHECK(ended->lost_node == one.lost);
  }
}

TEST_CASE("slurm: of a number that was given to another job after a crash, nothing is cancelled") {
  SlurmWorld world;
  world.slurm.play = [](const std::string&, int) { return long_play(1); };
  const auto ours = world.scheduler->submit_one(world.job("ours"));
  (void)world.look(world.open("ours", *ours));
  world.slurm.lose_with_its_number(*ours);
  world.new_controller();
  const auto theirs = world.scheduler->submit_one(world.job("theirs"));
  REQUIRE(*theirs == *ours);
  world.new_controller();
  (void)world.look(world.open("ours", *ours));
  CHECK(world.scheduler->cancel(*ours).ok());
  CHECK(world.slurm.cancels() == 0);
  // The other's own controller cancels it as ever.
  world.new_controller();
  world.looked_at.clear();
  (void)world.look(world.open("theirs", *theirs));
  CHECK(world.scheduler->cancel(*theirs).ok());
  CHECK(world.slurm.cancels() == 1);
}

}  // namespace longhaul
