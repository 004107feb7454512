// A job script that a person submits once more: the same work, beside what the run has.
#include "worker/lead/by_hand.h"

#include "tests/support/scratch.h"
#include "tests/unit/worker/lead_rig.h"

namespace longhaul {

TEST_CASE("by hand: an attempt of its own, with the same work and nothing that touches the run") {
  const testing::Scratch scratch;
  Attempt attempt;
  attempt.key = "p.3.abc";
  attempt.attempt = 3;
  attempt.stage_dir = scratch.file("p");
  attempt.attempt_dir = scratch.file("p/attempts/3");
  attempt.task_path = scratch.file("p/task.toml");
  attempt.doorbell = scratch.file("bell");
  attempt.at_end = {"longhaul", "tick"};
  attempt.rounds_at_s = {5};
  attempt.launcher = {"srun"};
  REQUIRE(make_directories(attempt.attempt_dir).ok());
  REQUIRE(write_attempt(join_path(attempt.attempt_dir, "attempt.toml"), attempt).ok());
  const ManualClock clock;
  const auto made =
      make_attempt_by_hand(attempt.attempt_dir, {.scheduler_job = "77", .restarts = 1, .nodes = {}}, clock);
  REQUIRE(made.ok());
  CHECK(*made == scratch.file("p/by-hand/77-1/attempts/1"));
  const auto other = read_attempt(join_path(*made, "attempt.toml"));
  REQUIRE(other.ok());
  CHECK(other->attempt == 1);
  CHECK(other->key != attempt.key);
  CHECK(other->task_path == attempt.task_path);
  CHECK(other->launcher == attempt.launcher);
  CHECK(starts_with(other->out_dir(), scratch.file("p/by-hand/77-1/")));
  CHECK(starts_with(other->state_dir(), scratch.file("p/by-hand/77-1/")));
  CHECK(other->doorbell.empty());
  CHECK(other->at_end.empty());
  CHECK(other->rounds_at_s.empty());
  // The same life of the same job does not begin twice; the next one, and one without a scheduler, may.
  CHECK(make_attempt_by_hand(attempt.attempt_dir, {.scheduler_job = "77", .restarts = 1, .nodes = {}}, clock)
            .error()
            .code == ErrorCode::conflict);
  CHECK(make_attempt_by_hand(attempt.attempt_dir, {.scheduler_job = "77", .restarts = 2, .nodes = {}}, clock).ok());
  CHECK(make_attempt_by_hand(attempt.attempt_dir, {}, clock).ok());
  CHECK(make_attempt_by_hand(scratch.file("nothing"), {}, clock).error().code == ErrorCode::not_found);
}

TEST_CASE("by hand: the run's artifact, record and bell stay as they are") {
  LeadRig rig("echo $RANDOM$RANDOM > \"$LONGHAUL_OUT/text\"");
  rig.attempt.doorbell = rig.root() + "/bell";
  rig.attempt.at_end = {"/bin/sh", "-c", "echo round >> " + rig.root() + "/rounds"};
  CHECK(rig.wait(rig.start()).success());
  const std::string text = rig.text("work/out/text"), record = rig.text("work/attempts/1/record.json");
  REQUIRE(!text.empty());
  REQUIRE(remove_tree(rig.attempt.doorbell).ok());
  rig.environment = {{"SLURM_JOB_ID", "78"}};
  CHECK(rig.wait(rig.start("--by-hand")).success());
  CHECK(rig.text("work/out/text") == text);
  CHECK(rig.text("work/attempts/1/record.json") == record);
  CHECK(!file_exists(rig.attempt.doorbell));
  CHECK(rig.text("rounds") == "round\n");
  CHECK(!rig.text("work/by-hand/78-0/out/text").empty());
  CHECK(read_record(join_path(rig.root(), "work/by-hand/78-0/attempts/1/record.json"))->outcome == "succeeded");
}

}  // namespace longhaul
