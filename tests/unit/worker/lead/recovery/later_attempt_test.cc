// A job whose stage has gone on in a later one ends: two trainings in one folder would undo each other's work.
#include "worker/lead/recovery/later_attempt.h"

#include "tests/unit/worker/lead_rig.h"

namespace longhaul {
namespace {

void claim_attempt(LeadRig& rig, int number, const std::string& name = "claim.json") {
  const std::string folder = format("{}/attempts/{}", rig.attempt.stage_dir, number);
  REQUIRE(make_directories(folder).ok());
  REQUIRE(
      write_claim(folder + "/" + name, {.key = "k", .host = "h", .process = {}, .started_ms = 1, .scheduler_job = {}})
          .ok());
}

}  // namespace

TEST_CASE("a later attempt counts once its lead has claimed it, and no sooner") {
  LeadRig rig("true");
  rig.use_attempt(9);
  rig.write();
  CHECK(claimed_later_attempt(rig.attempt) == 0);
  claim_attempt(rig, 8);
  claim_attempt(rig, 9);
  CHECK(claimed_later_attempt(rig.attempt) == 0);
  REQUIRE(make_directories(rig.attempt.stage_dir + "/attempts/10").ok());  // queued
  CHECK(claimed_later_attempt(rig.attempt) == 0);
  ManualClock clock;
  LaterAttempt later(rig.attempt, clock);
  CHECK(later.look() == 0);
  claim_attempt(rig, 10, "claim-2.json");  // in its third life
  CHECK(later.look() == 0);                // it has looked just now
  clock.advance_ms(31'000);
  CHECK(later.look() == 10);
}

TEST_CASE("a lead whose stage has gone on in a later attempt ends its ranks and says so") {
  LeadRig rig("sleep 60");
  claim_attempt(rig, 2);
  CHECK(rig.wait(rig.start()).code == 1);
  CHECK(rig.record().outcome == "cancelled");
  CHECK(rig.record().cause.find("attempt 2 of this stage has begun") != std::string::npos);
}

}  // namespace longhaul
