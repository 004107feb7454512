// A submission that another controller may still be at.
#include "orchestrator/scheduler/slurm/slurm_scheduler.h"
#include "tests/unit/orchestrator/scheduler/slurm_world.h"

using namespace longhaul;

TEST_CASE("slurm: a submission that is in flight for 40 s is waited for by whoever takes over meanwhile") {
  for (const bool may_live : {false, true}) {
    CAPTURE(may_live);
    SlurmWorld world;
    SlurmSchedulerOptions options;
    options.settle_ms = SlurmWorld::settle_ms;
    SlurmScheduler second(world.slurm.port(), options, world.clock, world.log);
    JobSpec spec = world.job("k", true);
    spec.in_flight = may_live;  // the first controller is on another host, or its process lives
    world.slurm.in_flight = [&] {
      for (int s = 0; s < 40; s += 5) {
        (void)second.submit_one(spec);
        world.clock.advance_ms(5'000);
      }
    };
    REQUIRE(world.scheduler->submit_one(world.job("k")).ok());
    CHECK(world.slurm.submissions("k") == (may_live ? 1 : 2));
    CHECK(second.submit_one(spec).ok());  // it sees the first one's, or knows its own
  }
}

TEST_CASE("slurm: for what may be in flight each of several short rounds goes on with the wait of those before") {
  SlurmWorld world;
  JobSpec spec = world.job("k", true);
  spec.in_flight = true;
  int rounds = 0;
  for (bool submitted = false; !submitted; ++rounds) {
    REQUIRE(rounds < 5);
    world.new_controller();
    spec.overtaken_ms = 50'000 * rounds;
    for (int s = 0; s <= 50 && !submitted; s += 5) {
      submitted = world.scheduler->submit_one(spec).ok();
      if (!submitted) world.clock.advance_ms(5'000);
    }
  }
  CHECK(rounds == 2);  // of 50 s each, for 90 s
  CHECK(world.slurm.submissions("k") == 1);
}
