// Jobs that wait for other jobs, and what Slurm makes of that: in virtual time.
#include "base/text/text.h"
#include "orchestrator/scheduler/slurm/slurm_scheduler.h"
#include "tests/unit/orchestrator/scheduler/slurm_world.h"

using namespace longhaul;

TEST_CASE("slurm: a dependency on a job that Slurm has forgotten is no dependency, in old releases and new ones") {
  for (const bool refuses : {false, true}) {
    CAPTURE(refuses);
    FakeSlurm::Options options;
    options.min_job_age_ms = 1'000;
    options.refuses_forgotten_dependency = refuses;
    SlurmWorld world(options);
    const auto first = world.scheduler->submit_one(world.job("first"));
    world.clock.advance_ms(10'000);
    JobSpec second = world.job("second");
    second.after = *first;
    const auto id = world.scheduler->submit_one(second);
    REQUIRE(id.ok());
    CHECK(world.slurm.submissions("second") == 1);
    CHECK(world.look(world.open("second", *id))->state == JobState::running);
  }
}

TEST_CASE("slurm: a dependency on a living job holds, and is put back when Slurm has dropped it") {
  for (const bool dropped : {false, true}) {
    CAPTURE(dropped);
    SlurmWorld world;
    FakeSlurm::Play longer;
    longer.duration_ms = 50'000;
    longer.nodes = 2;  // so that the dependent cannot have started yet
    world.slurm.play = [&](const std::string&, int) { return longer; };
    const auto first = world.scheduler->submit_one(world.job("first"));
    JobSpec second = world.job("second");
    second.after = *first;
    world.slurm.drop_live_dependency = dropped;
    const auto id = world.scheduler->submit_one(second);
    REQUIRE(id.ok());
    const auto waiting = world.slurm.port()->job(*id);
    REQUIRE(waiting.ok());
    CHECK(waiting->front().dependency.find(*first) != std::string::npos);
  }
}

TEST_CASE("slurm: a dependent that has started though its predecessor lives is cancelled") {
  SlurmWorld world;
  FakeSlurm::Play longer;
  longer.duration_ms = 50'000;
  world.slurm.play = [&](const std::string&, int) { return longer; };
  const auto first = world.scheduler->submit_one(world.job("first"));
  JobSpec second = world.job("second");
  second.after = *first;
  world.slurm.drop_live_dependency = true;
  const auto id = world.scheduler->submit_one(second);
  REQUIRE(id.ok());
  world.clock.advance_ms(1);
  const auto info = world.look(world.open("second", *id));
  CHECK(info->state == JobState::ended);
  CHECK(info->record->outcome == "cancelled");
}
