// What a lead writes of a fault is what a reader gets, through a line of events.jsonl.
#include "contracts/events/fault_event.h"

#include <doctest/doctest.h>

namespace longhaul {

TEST_CASE("a fault comes back from its line as it was, with the culprit's rank and not the writer's") {
  FaultEvent fault;
  fault.launch = 2;
  fault.fault_class = "killed";
  fault.scope = "rank";
  fault.severity = "error";
  fault.rank = 5;
  fault.host = "n1";
  fault.step = 40;
  fault.section = "forward";
  fault.cause = "rank 5 ended: killed by signal 9";
  fault.fingerprint = "rank # ended: killed by signal #";
  fault.tier = "in_job";
  fault.next = "launch 3";
  fault.reason = "retry 1 of 5";
  fault.detect_s = 0.25;
  for (const int rank : {5, 0, -1}) {
    CAPTURE(rank);
    fault.rank = rank;
    const auto event = parse_event(event_line({1000, fault_event_kind, 0, to_value(fault)}));
    REQUIRE(event.ok());
    CHECK(event->kind == "fault");
    const FaultEvent read = fault_event_of(*event);
    CHECK(read.rank == rank);
    CHECK(to_value(read) == to_value(fault));
    CHECK(to_value(fault_event_from_value(to_value(fault))) == to_value(fault));
  }
  CHECK(fault_event_of(*parse_event(event_line({1, "fault", 0, to_value(fault)}))).section == "forward");
}

TEST_CASE("what is not known is left out and stays unknown") {
  const Value fault = to_value(FaultEvent{});
  for (const char* key : {"step", "detect_s", "host", "section"}) CHECK(fault.find(key) == nullptr);
  CHECK(fault_event_from_value(fault).step == -1);
  CHECK(fault_event_from_value(fault).detect_s == -1);
  CHECK(fault_event_from_value(fault).rank == -1);
  const Value recovered = to_value(RecoveredEvent{});
  CHECK(recovered.find("lost_steps") == nullptr);
  CHECK(recovered_event_from_value(recovered).total_s == -1);
}

TEST_CASE("a recovery comes back with each of its parts") {
  const RecoveredEvent event{3, 0.1, 0.2, 0.6, 0.3, 0.4, 0.5, 1.5, 7, 0.15};
  const RecoveredEvent read = recovered_event_from_value(to_value(event));
  CHECK(read.launch == 3);
  CHECK(read.detect_s == 0.1);
  CHECK(read.stop_s == 0.2);
  CHECK(read.queue_s == 0.6);
  CHECK(read.start_s == 0.3);
  CHECK(read.load_s == 0.4);
  CHECK(read.first_step_s == 0.5);
  CHECK(read.total_s == 1.5);
  CHECK(read.lost_steps == 7);
  CHECK(read.teardown_s == 0.15);
}

}  // namespace longhaul
