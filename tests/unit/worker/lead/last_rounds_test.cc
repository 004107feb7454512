// How long, and at what price, a job is held after its last rank: the sums, and leads of real processes.
#include "worker/lead/last_rounds.h"

#include "contracts/events/event.h"
#include "contracts/records/held_allocation.h"
#include "tests/unit/worker/lead_rig.h"

namespace longhaul {
namespace {

constexpr std::int64_t second_ns = 1'000'000'000;

AllocationHeld held_of(const LeadRig& rig) {
  std::uint64_t offset = 0;
  const auto events = read_events(rig.attempt.events_path(), offset);
  REQUIRE(events.ok());
  AllocationHeld held;
  int count = 0;
  for (const Event& event : *events)
    if (event.kind == allocation_held_event_kind) held = allocation_held_from_value(event.fields), ++count;
  CHECK(count == 1);
  return held;
}

// A round that a silent scheduler keeps, in a job of so many GPUs.
void keep_round(LeadRig& rig, int gpus) {
  rig.attempt.gpus_per_node = gpus;
  rig.attempt.run_dir = rig.root();
  rig.attempt.doorbell = rig.root() + "/log/doorbell";
  REQUIRE(make_directories(rig.root() + "/log").ok());
  rig.attempt.at_end = {"/bin/sh", "-c", "echo \"$@\" >> " + rig.root() + "/rounds; sleep 60", "round"};
}

}  // namespace

TEST_CASE("held: whatever the size of a job, it holds its nodes for no more than an hour of one GPU, or 15 minutes") {
  for (const int nodes : {1, 2, 16, 250, 2'500}) {
    CAPTURE(nodes);
    const HeldCost cost(nodes, 4, 0);
    const std::int64_t left_ms = cost.left_ms(false, 0);
    CHECK(left_ms <= held_ms_max);
    CHECK(static_cast<double>(left_ms) / 60'000 * cost.gpus() <= held_gpu_minutes_max);
    CHECK(cost.left_ms(true, 0) <= held_followed_ms_max);
    CHECK(cost.left_ms(true, 0) <= left_ms);
    CHECK(cost.left_ms(false, left_ms * 1'000'000) == 0);
  }
  CHECK(HeldCost(1, 4, 0).left_ms(false, 0) == held_ms_max);
  CHECK(HeldCost(250, 4, 0).left_ms(false, 0) == 3'600);
  CHECK(HeldCost(2, 0, 0).gpus() == 2);  // a node without GPUs counts as one
}

TEST_CASE("held: nodes that are given back cost no more, and what was spent before counts") {
  HeldCost cost(10, 8, 0);
  CHECK(cost.gpu_minutes(30 * second_ns) == doctest::Approx(40));
  cost.gave_back(1, 30 * second_ns);
  CHECK(cost.gpus() == 8);
  CHECK(cost.gpu_minutes(60 * second_ns) == doctest::Approx(44));
  CHECK(cost.left_ms(false, 30 * second_ns) == 150'000);  // 20 minutes of one GPU, for eight
  // Nothing is left, and a round is made all the same, for it costs little now.
  HeldCost late(1'000, 4, 0);
  CHECK(late.left_ms(false, 60 * second_ns) == 0);
  late.gave_back(1, 60 * second_ns);
  CHECK(late.left_ms(false, 60 * second_ns) == 60'000);
  CHECK(late.left_ms(true, 60 * second_ns) == 0);  // somebody else makes it
}

TEST_CASE("held: a lead leaves when its job has cost enough, and says that nobody goes on") {
  LeadRig rig("true");
  keep_round(rig, 3'600);  // a second is an hour of one GPU
  CHECK(rig.wait(rig.start()).success());
  const AllocationHeld held = held_of(rig);
  CHECK(held.left == "alone");
  CHECK(held.held_s < 20);
  CHECK(held.gpus == 3'600);
  CHECK(rig.text("rounds").find("--patience 1s") != std::string::npos);
  CHECK(rig.text("work/attempts/1/lead.log").find("nobody goes on with the run") != std::string::npos);
}

TEST_CASE("held: where a small job waits behind this one the lead leaves what is open to it") {
  LeadRig rig("true");
  keep_round(rig, 3'600);
  rig.environment = {{"SLURM_JOB_ID", "77"}};
  REQUIRE(write_follower(rig.root(), {"78", {"77"}}).ok());
  CHECK(rig.wait(rig.start()).success());
  CHECK(held_of(rig).left == "followed");
  CHECK(rig.text("rounds").find("--of-job 77") != std::string::npos);

  LeadRig other("true");
  keep_round(other, 3'600);  // one that waits behind another job is none of its own
  other.environment = {{"SLURM_JOB_ID", "77"}};
  REQUIRE(write_follower(other.root(), {"78", {"76"}}).ok());
  CHECK(other.wait(other.start()).success());
  CHECK(held_of(other).left == "alone");
}

TEST_CASE("held: a round that is made ends the job at once, whatever it may cost") {
  LeadRig rig("true");
  keep_round(rig, 36);  // 100 s
  rig.attempt.at_end = {"/bin/sh", "-c", "true"};
  CHECK(rig.wait(rig.start()).success());
  const AllocationHeld held = held_of(rig);
  CHECK(held.left == "done");
  CHECK(held.gave_back_s < 0);
  CHECK(give_back_arguments("12_3", "") == std::vector<std::string>{"scontrol", "update", "JobId=12_3", "NumNodes=1"});
  CHECK(give_back_arguments("12", "n7") == std::vector<std::string>{"scontrol", "update", "JobId=12", "NodeList=n7"});
}

}  // namespace longhaul
