// A run's faults out of events and facts, as `longhaul faults` reports them.
#include "orchestrator/render/run/fault_story.h"

#include <doctest/doctest.h>

#include "resiliency/taxonomy/fault_table.h"

namespace longhaul {
namespace {

Event fault_reported(std::int64_t ms, int launch, const std::string& fault_class) {
  FaultEvent fault;
  fault.launch = launch;
  fault.fault_class = fault_class;
  fault.scope = "rank";
  fault.rank = 3;
  fault.host = "n1";
  fault.cause = "rank 3 ended";
  fault.tier = "in_job";
  fault.next = "launch " + std::to_string(launch + 1);
  fault.reason = "retry 1 of 3";
  return *parse_event(event_line({ms, fault_event_kind, 0, to_value(fault)}));
}
Event recovery_reported(std::int64_t ms, double total_s) {
  RecoveredEvent recovered;
  recovered.total_s = total_s;
  recovered.lost_steps = 2;
  return {ms, recovered_event_kind, 0, to_value(recovered)};
}

Fact end_reported(FactKind kind, int attempt, const std::string& fault, const std::string& node) {
  Fact fact{kind, "pretrain", attempt, Value::make_table(), 5000};
  fact.fields.set("fault", fault);
  fact.fields.set("cause", "the scheduler says so");
  fact.fields.set("reason", "retry 1 of 5 (infrastructure)");
  fact.fields.set("node", node);
  return fact;
}

}  // namespace

TEST_CASE("a recovery belongs to the last fault before it, and the first launch after a fault is its own") {
  const auto faults = faults_of_events("pretrain", 1,
                                       {{100, "launched", 0, {}},
                                        recovery_reported(150, 9),
                                        fault_reported(1000, 1, "killed"),
                                        fault_reported(1100, 1, "crash"),
                                        {2000, "launched", 0, {}},
                                        recovery_reported(3000, 2.5),
                                        fault_reported(4000, 2, "hang"),
                                        {4500, "launched", 0, {}},
                                        {4900, "launched", 0, {}}});
  REQUIRE(faults.size() == 3);
  CHECK(!faults[0].recovered);
  REQUIRE(faults[1].recovered);
  CHECK(faults[1].recovered->total_s == 2.5);
  CHECK(faults[1].launched_ms == 2000);
  CHECK(faults[2].launched_ms == 4500);
  CHECK(!faults[2].recovered);
  CHECK(faults[0].fault.rank == 3);
}

TEST_CASE("ends of jobs say what the controller did next, with the hosts that it left out") {
  Fact submit{FactKind::submit, "pretrain", 2, Value::make_table(), 6000};
  submit.fields.set("exclude", ValueArray{"n1", "n2"});
  const auto faults = faults_of_facts({{FactKind::submit, "pretrain", 1, Value::make_table(), 1000},
                                       end_reported(FactKind::retry, 1, "node_fail", "n1"),
                                       submit,
                                       end_reported(FactKind::failed, 2, "bad_input", "")});
  REQUIRE(faults.size() == 2);
  CHECK(faults[0].fault.next == "attempt 2 without n1, n2");
  CHECK(faults[0].fault.tier == "new_job");
  CHECK(faults[0].fault.scope == "host");
  CHECK(faults[1].fault.tier == "stop");
  CHECK(faults[1].fault.severity == "fatal");
}

TEST_CASE("a stage that was to be tried again and then was given up has one fault, after which nothing came") {
  Fact given_up{FactKind::failed, "pretrain", 0, Value::make_table(), 7000};
  given_up.fields.set("fault", "node_fail");
  given_up.fields.set("cause", "the scheduler says so; not tried again: the run has stopped");
  const auto faults = faults_of_facts({{FactKind::submit, "pretrain", 1, Value::make_table(), 1000},
                                       end_reported(FactKind::retry, 1, "node_fail", "n1"),
                                       given_up});
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].attempt == 1);
  CHECK(faults[0].fault.host == "n1");
  CHECK(faults[0].fault.next == "nothing");
  CHECK(faults[0].fault.tier == "stop");
  CHECK(faults[0].fault.cause.find("not tried again") != std::string::npos);
}

TEST_CASE("text and JSON name culprit, cause, decision and the time that it took") {
  const auto faults = faults_of_events(
      "pretrain", 2,
      {fault_reported(1000, 1, "killed"), recovery_reported(3000, 2.5), fault_reported(4000, 2, "hang")});
  const std::string text = run_faults_text(faults);
  for (const char* part : {"pretrain, attempt 2, launch 1  killed (rank)  rank 3 on n1", "cause      rank 3 ended",
                           "decided    in_job: launch 2 (retry 1 of 3)", "recovered  2.50 s", "2 steps done again",
                           "2 faults: 1 hang, 1 killed; 1 recovered within their job, median 2.50 s"}) {
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
  }
  CHECK(run_faults_text({}) == "no faults\n");
  const Value value = run_faults_value(faults);
  const Value& first = value.find("faults")->as_array().at(0);
  CHECK(first.get_string("class") == "killed");
  CHECK(first.get_string("by") == "lead");
  CHECK(first.find("recovered")->get_number("total_s") == 2.5);
}

TEST_CASE("the table of classes has a line for each") {
  const std::string text = fault_classes_text();
  for (const FaultInfo& info : fault_table) CHECK(text.find(std::string("\n") + info.name + " ") != std::string::npos);
  CHECK(fault_classes_value().find("classes")->size() == fault_class_count);
}

}  // namespace longhaul
