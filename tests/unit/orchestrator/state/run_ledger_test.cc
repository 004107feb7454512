// The table of transitions, iterated: everything in it works, everything else is refused and changes nothing.
#include "orchestrator/state/run_ledger.h"

#include <doctest/doctest.h>

using namespace longhaul;

namespace {

// A ledger whose one stage is in the given state, got there along legal facts.
RunLedger ledger_in(StageState state) {
  const std::vector<FactKind> submitted = {FactKind::ready, FactKind::submit, FactKind::submitted};
  const auto path_to = [&](StageState wanted) -> std::vector<FactKind> {
    std::vector<FactKind> path;
    switch (wanted) {
      case StageState::waiting: break;
      case StageState::ready: path = {FactKind::ready}; break;
      case StageState::submitted: path = submitted; break;
      case StageState::running:
        path = submitted;
        path.push_back(FactKind::started);
        break;
      case StageState::succeeded:
        path = submitted;
        path.push_back(FactKind::succeeded);
        break;
      case StageState::cached: path = {FactKind::ready, FactKind::cached}; break;
      case StageState::failed:
        path = submitted;
        path.push_back(FactKind::failed);
        break;
      case StageState::cancelled: path = {FactKind::cancelled}; break;
      case StageState::skipped: path = {FactKind::skipped}; break;
    }
    return path;
  };
  RunLedger ledger({"a"});
  for (const FactKind kind : path_to(state)) ledger.apply({kind, "a", 1, Value::make_table(), 1});
  REQUIRE(ledger.stages[0].state == state);
  REQUIRE(ledger.refused.empty());
  return ledger;
}

}  // namespace

TEST_CASE("every pair of state and fact is either in the table, and obeyed, or refused without effect") {
  const FactKind stage_facts[] = {FactKind::ready,           FactKind::cached,
                                  FactKind::submit,          FactKind::submitted,
                                  FactKind::refused,         FactKind::started,
                                  FactKind::succeeded,       FactKind::retry,
                                  FactKind::failed,          FactKind::cancel_job,
                                  FactKind::cancel_sent,     FactKind::cancelled,
                                  FactKind::skipped,         FactKind::reset,
                                  FactKind::submit_next,     FactKind::requeued,
                                  FactKind::go_on,           FactKind::release_job,
                                  FactKind::released,        FactKind::milestone,
                                  FactKind::lift_exclusions, FactKind::exclusions_lifted,
                                  FactKind::held_up};
  int legal = 0;
  for (int s = 0; s <= static_cast<int>(StageState::skipped); ++s) {
    for (const FactKind kind : stage_facts) {
      const auto state = static_cast<StageState>(s);
      CAPTURE(to_string(state));
      CAPTURE(to_string(kind));
      const Transition* expected = nullptr;
      for (const Transition& transition : stage_transitions())
        if (transition.from == state && transition.fact == kind) {
          CHECK(expected == nullptr);  // one line for each
          expected = &transition;
        }
      RunLedger ledger = ledger_in(state);
      ledger.apply({kind, "a", 1, Value::make_table(), 2});
      CHECK(ledger.stages[0].state == (expected ? expected->to : state));
      CHECK(ledger.refused.size() == (expected ? 0 : 1));
      legal += expected != nullptr;
    }
  }
  CHECK(legal == static_cast<int>(stage_transitions().size()));
}

TEST_CASE("milestones are kept by step until the stage is tried anew") {
  RunLedger ledger = ledger_in(StageState::failed);
  Fact fact{FactKind::milestone, "a", 0, Value::make_table(), 3};
  fact.fields.set("step", 40);
  fact.fields.set("artifact", "/run/stages/a/milestones/40");
  fact.fields.set("digest", "d");
  const auto read = parse_fact(fact_line(fact));
  REQUIRE(read.ok());
  ledger.apply(*read);
  REQUIRE(ledger.stages[0].milestones.contains(40));
  CHECK(ledger.stages[0].milestones.at(40).artifact == "/run/stages/a/milestones/40");
  CHECK(ledger.stages[0].milestones.at(40).digest == "d");
  CHECK(ledger.stages[0].artifact.empty());
  ledger.apply({FactKind::reset, "a", 0, {}, 4});
  CHECK(ledger.stages[0].milestones.empty());
  ledger.apply(fact);  // of a key that is not known again yet
  CHECK(ledger.refused.size() == 1);
}

TEST_CASE("facts survive being written and read") {
  Fact fact{FactKind::ready, "sft/lr=1e-05", 2, Value::make_table(), 1234};
  fact.fields.set("key", "k");
  fact.fields.set("inputs", inputs_to_value({{"model", {"/a b", "/c"}, "pretrain", "d"}}));
  const auto read = parse_fact(fact_line(fact));
  REQUIRE(read.ok());
  CHECK(read->kind == FactKind::ready);
  CHECK(read->stage == fact.stage);
  CHECK(read->attempt == 2);
  CHECK(read->wall_ms == 1234);
  const auto inputs = inputs_from_value(read->fields.find("inputs"));
  REQUIRE(inputs.size() == 1);
  CHECK(inputs[0].paths == std::vector<std::string>{"/a b", "/c"});
  CHECK(!parse_fact("{\"fact\": \"invented\"}").ok());
  CHECK(!parse_fact("{\"fact\": ").ok());
}

TEST_CASE("a fact of an unknown stage is refused, not a crash") {
  RunLedger ledger({"a"});
  ledger.apply({FactKind::ready, "b", 0, {}, 0});
  CHECK(ledger.refused.size() == 1);
}
