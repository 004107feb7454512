#include "worker/lead/told_facts.h"

#include <doctest/doctest.h>

#include "contracts/fault_event.h"
#include "tests/unit/worker/told_event.h"

using namespace longhaul;

TEST_CASE("what was told in one look is known in all that follow") {
  ToldFacts facts;
  CHECK(facts.saved_step() == -1);
  CHECK(facts.fault_of(2).empty());
  facts.take({told_event("launched", {{"launch", 1}}), told_event("checkpoint", {{"step", 20}}),
              told_event("faulted", {{"what", "step 21: first"}, {"launch", 1}}, 2)});
  facts.take({told_event("faulted", {{"what", "step 25: second"}, {"launch", 1}}, 2),
              told_event("local_copy", {{"step", 24}}), told_event("checkpoint", {{"step", 22}})});
  facts.take({});
  CHECK(facts.saved_step() == 24);
  CHECK(facts.fault_of(2) == "step 25: second");
  CHECK(facts.fault_of(1).empty());
}

TEST_CASE("what a rank said of a fault that is over explains no later one") {
  ToldFacts facts;
  facts.take({told_event("faulted", {{"what", "step 21: rank 2: first"}, {"launch", 1}})});
  CHECK(facts.fault_of(0) == "step 21: rank 2: first");
  facts.faults_decided();
  CHECK(facts.fault_of(0).empty());
  facts.take({told_event("faulted", {{"what", "step 30: second"}, {"launch", 1}})});
  facts.take({told_event("launched", {{"launch", 2}})});
  CHECK(facts.fault_of(0).empty());
}

TEST_CASE("a launch that ended in time says nothing of the next one") {
  ToldFacts facts;
  facts.take({told_event("launched", {{"launch", 1}}), told_event(stopped_event_kind, {{"why", "signal"}})});
  CHECK(facts.stopped() == "signal");
  facts.take({told_event(stopped_event_kind, {{"why", stopped_by_own_timer}})});
  CHECK(facts.stopped() == stopped_by_own_timer);
  facts.take({told_event("launched", {{"launch", 2}})});
  CHECK(facts.stopped().empty());
}

TEST_CASE("silent corruption is known until another fault has been decided") {
  SilentCorruption found;
  found.rank = 3, found.step = 9, found.sound_step = 8, found.what = "bits";
  Event event = told_event("faulted", {{"what", "bits"}, {"launch", 2}}, 1);
  set_fields(event.fields, found);
  ToldFacts facts;
  facts.take({event});
  facts.take({told_event("faulted", {{"what", "else"}, {"launch", 2}})});
  REQUIRE(facts.corruption(2, 0));
  CHECK(facts.corruption(2, 0)->rank == 3);
  CHECK(!facts.corruption(3, 0));
  CHECK(!facts.corruption(2, event.wall_ms));
}
