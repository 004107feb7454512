#include "worker/lead/recovery/event_facts.h"

#include <doctest/doctest.h>

#include "contracts/events/fault_event.h"
#include "contracts/events/roll_back_event.h"
#include "tests/unit/worker/reported_event.h"

using namespace longhaul;

TEST_CASE("what was reported in one look is known in all that follow") {
  EventFacts facts;
  CHECK(facts.saved_step() == -1);
  CHECK(facts.fault_of(2).empty());
  facts.take({reported_event("launched", {{"launch", 1}}), reported_event("checkpoint", {{"step", 20}}),
              reported_event("faulted", {{"what", "step 21: first"}, {"launch", 1}}, 2)});
  facts.take({reported_event("faulted", {{"what", "step 25: second"}, {"launch", 1}}, 2),
              reported_event("local_copy", {{"step", 24}}), reported_event("checkpoint", {{"step", 22}})});
  facts.take({});
  CHECK(facts.saved_step() == 24);
  CHECK(facts.fault_of(2) == "step 25: second");
  CHECK(facts.fault_of(1).empty());
}

TEST_CASE("the newest whole checkpoint that counts is no copy on the nodes and nothing that was ruled out") {
  EventFacts facts;
  CHECK(facts.whole_step() == -1);
  facts.begin_with(30);
  CHECK(facts.whole_step() == 30);
  facts.take({reported_event("checkpoint", {{"step", 40}}), reported_event("local_copy", {{"step", 44}})});
  CHECK(facts.whole_step() == 40);
  facts.take({reported_event("checkpoint", {{"step", 60}}), reported_event(rolled_back_event_kind, {{"to_step", 50}})});
  CHECK(facts.whole_step() == 50);
  SilentCorruption found;
  found.rank = 1, found.step = 59, found.sound_step = 20, found.what = "bits";
  Event event = reported_event("faulted", {{"what", "bits"}, {"launch", 2}}, 1);
  set_fields(event.fields, found);
  facts.take({reported_event("checkpoint", {{"step", 58}}), event});
  CHECK(facts.whole_step() == 20);
  found.sound_step = 58;  // nothing can have been wrong before the step
  set_fields(event.fields, found);
  facts.take({reported_event("checkpoint", {{"step", 58}}), event});
  CHECK(facts.whole_step() == 58);
}

TEST_CASE("what a rank said of a fault that is over explains no later one") {
  EventFacts facts;
  facts.take({reported_event("faulted", {{"what", "step 21: rank 2: first"}, {"launch", 1}})});
  CHECK(facts.fault_of(0) == "step 21: rank 2: first");
  facts.faults_decided();
  CHECK(facts.fault_of(0).empty());
  facts.take({reported_event("faulted", {{"what", "step 30: second"}, {"launch", 1}})});
  facts.take({reported_event("launched", {{"launch", 2}})});
  CHECK(facts.fault_of(0).empty());
}

TEST_CASE("a launch that ended in time says nothing of the next one") {
  EventFacts facts;
  facts.take({reported_event("launched", {{"launch", 1}}), reported_event(stopped_event_kind, {{"why", "signal"}})});
  CHECK(facts.stopped() == "signal");
  facts.take({reported_event(stopped_event_kind, {{"why", stopped_by_own_timer}})});
  CHECK(facts.stopped() == stopped_by_own_timer);
  facts.take({reported_event("launched", {{"launch", 2}})});
  CHECK(facts.stopped().empty());
}

TEST_CASE("silent corruption is known until another fault has been decided") {
  SilentCorruption found;
  found.rank = 3, found.step = 9, found.sound_step = 8, found.what = "bits";
  Event event = reported_event("faulted", {{"what", "bits"}, {"launch", 2}}, 1);
  set_fields(event.fields, found);
  EventFacts facts;
  facts.take({event});
  facts.take({reported_event("faulted", {{"what", "else"}, {"launch", 2}})});
  REQUIRE(facts.corruption(2));
  CHECK(facts.corruption(2)->rank == 3);
  CHECK(!facts.corruption(3));
  facts.faults_decided();
  CHECK(!facts.corruption(2));
  event.wall_ms -= 20 * 3'600'000;  // of a rank whose clock is behind: what counts is that it was reported after that
  facts.take({event});
  CHECK(facts.corruption(2));
}

TEST_CASE("progress is a whole checkpoint further than any before; copies on the nodes only get a training further") {
  EventFacts facts;
  CHECK(!facts.progress().further);
  facts.take({reported_event("local_copy", {{"step", 3}})});
  CHECK(facts.progress().further);
  CHECK(!facts.progress().checkpoint);
  facts.progress_judged();
  CHECK(!facts.progress().further);
  facts.take({reported_event("checkpoint", {{"step", 3}})});
  CHECK(!facts.progress().further);
  CHECK(facts.progress().checkpoint);
  facts.progress_judged();
  facts.take({reported_event("checkpoint", {{"step", 3}}), reported_event("checkpoint", {{"step", 2}})});
  CHECK(!facts.progress().checkpoint);
}

TEST_CASE("after a roll-back, or unsound weights, progress counts from where the training went back to") {
  EventFacts facts;
  facts.take({reported_event("checkpoint", {{"step", 100}})});
  facts.progress_judged();
  SUBCASE("the engine went back by itself") {
    Event back = reported_event(rolled_back_event_kind);
    set_fields(back.fields, {101, 40, 60, 12, 0.75, 0.5});
    facts.take({back});
  }
  SUBCASE("ranks have found wrong bits, and since when") {
    SilentCorruption found;
    found.rank = 3, found.step = 101, found.sound_step = 40, found.what = "bits";
    Event event = reported_event("faulted", {{"what", "bits"}, {"launch", 2}}, 3);
    set_fields(event.fields, found);
    facts.take({event});
  }
  CHECK(facts.saved_step() == 40);
  CHECK(!facts.progress().further);
  facts.take({reported_event("checkpoint", {{"step", 60}})});
  CHECK(facts.progress().further);
  CHECK(facts.progress().checkpoint);
}

TEST_CASE("weights that were wrong from the first step on take a training back to its beginning") {
  EventFacts facts;
  facts.take({reported_event("checkpoint", {{"step", 20}}), reported_event("local_copy", {{"step", 24}})});
  SilentCorruption found;
  found.rank = 1, found.step = 25, found.sound_step = 0, found.what = "bits";
  Event event = reported_event("faulted", {{"what", "bits"}, {"launch", 1}}, 1);
  set_fields(event.fields, found);
  facts.take({event});
  CHECK(facts.saved_step() == 0);
}

TEST_CASE("what was reported goes on to the next lead, and what is not decided yet is read by it itself") {
  EventFacts facts;
  CHECK(facts.at_rest());
  facts.take({reported_event("launched", {{"launch", 1}}), reported_event("checkpoint", {{"step", 20}}),
              reported_event("local_copy", {{"step", 24}}), reported_event(stopped_event_kind, {{"why", "signal"}})});
  CHECK(facts.at_rest());
  const EventFacts next = EventFacts::of(facts.snapshot());
  CHECK(next.steps() == facts.steps());
  CHECK(next.stopped() == "signal");
  facts.take({reported_event("faulted", {{"what", "step 21: first"}, {"launch", 1}}, 2)});
  CHECK(!facts.at_rest());
  CHECK(EventFacts::of(Value()).saved_step() == -1);
}
