#include "orchestrator/state/budget.h"

#include <doctest/doctest.h>

#include "orchestrator/decide/decide.h"

using namespace longhaul;

namespace {

constexpr std::int64_t budget_hour_ms = 3'600'000;

struct BudgetRig {
  RunPlan plan;
  RunLedger ledger;
  BudgetRig() {
    plan.workflow = "w";
    for (const auto& [name, nodes] : {std::pair{"a", 4}, {"b", 1}, {"c", 2}}) {
      PlannedStage stage;
      stage.stage = name;
      stage.kind = "command";
      stage.common.nodes = nodes;
      plan.stages.push_back(stage);
    }
    ledger = RunLedger({"a", "b", "c"});
  }
  void start(const std::string& stage, int attempt, std::int64_t at_ms) {
    if (ledger.find(stage)->state == StageState::waiting) ledger.apply({FactKind::ready, stage, 0, {}, at_ms});
    ledger.apply({FactKind::submit, stage, attempt, Value::make_table(), at_ms});
    ledger.apply({FactKind::submitted, stage, attempt, Value::make_table(), at_ms});
    Value fields = Value::make_table();
    fields.set("started_ms", static_cast<long long>(at_ms));
    ledger.apply({FactKind::started, stage, attempt, fields, at_ms});
  }
  void end(const std::string& stage, int attempt, FactKind kind, std::int64_t from_ms, std::int64_t to_ms) {
    Value fields = Value::make_table();
    fields.set("started_ms", static_cast<long long>(from_ms));
    fields.set("ended_ms", static_cast<long long>(to_ms));
    ledger.apply({kind, stage, attempt, fields, to_ms});
  }
};

}  // namespace

TEST_CASE("budget: all attempts count with their nodes, running ones until now, waiting ones not") {
  BudgetRig rig;
  CHECK(spent_node_hours(rig.ledger, rig.plan, 100 * budget_hour_ms) == 0);
  rig.start("a", 1, budget_hour_ms);
  CHECK(spent_node_hours(rig.ledger, rig.plan, 2 * budget_hour_ms) == doctest::Approx(4));
  rig.end("a", 1, FactKind::retry, budget_hour_ms, 3 * budget_hour_ms);
  CHECK(spent_node_hours(rig.ledger, rig.plan, 50 * budget_hour_ms) == doctest::Approx(8));
  rig.start("a", 2, 10 * budget_hour_ms);
  rig.end("a", 2, FactKind::succeeded, 10 * budget_hour_ms, 11 * budget_hour_ms);
  rig.start("b", 1, 11 * budget_hour_ms);
  CHECK(spent_node_hours(rig.ledger, rig.plan, 12 * budget_hour_ms) == doctest::Approx(8 + 4 + 1));
  CHECK(!budget_spent(rig.ledger, rig.plan, 12 * budget_hour_ms));  // none was set
  rig.plan.budget_node_hours = 14;
  CHECK(!budget_spent(rig.ledger, rig.plan, 12 * budget_hour_ms));
  CHECK(budget_spent(rig.ledger, rig.plan, 13 * budget_hour_ms));
}

TEST_CASE("budget: spare nodes are held as well, and count") {
  BudgetRig rig;
  rig.plan.stages[0].common.resiliency.spares = 2;  // beside its 4
  rig.start("a", 1, budget_hour_ms);
  CHECK(spent_node_hours(rig.ledger, rig.plan, 2 * budget_hour_ms) == doctest::Approx(6));
  rig.end("a", 1, FactKind::succeeded, budget_hour_ms, 3 * budget_hour_ms);
  CHECK(spent_node_hours(rig.ledger, rig.plan, 50 * budget_hour_ms) == doctest::Approx(12));
}

TEST_CASE("budget: once it is spent nothing more is submitted, what runs goes on, and the run says so") {
  BudgetRig rig;
  rig.plan.budget_node_hours = 3;
  rig.start("a", 1, budget_hour_ms);
  Observations seen;
  seen.now_ms = 2 * budget_hour_ms;
  PreparedStage prepared;
  prepared.key = "k";
  seen.prepared["b"] = prepared;
  const auto facts = decide(rig.plan, {}, rig.ledger, seen, "run");
  int skipped = 0;
  for (const Fact& fact : facts) {
    CHECK(fact.kind != FactKind::submit);
    skipped += fact.kind == FactKind::skipped && fact.text("cause").find("budget of 3 node-hours") != std::string::npos;
    rig.ledger.apply(fact);
  }
  CHECK(skipped == 2);
  CHECK(rig.ledger.find("a")->state == StageState::running);
  rig.end("a", 1, FactKind::succeeded, budget_hour_ms, 2 * budget_hour_ms);
  const auto last = decide(rig.plan, {}, rig.ledger, seen, "run");
  REQUIRE(last.size() == 1);
  CHECK(last[0].kind == FactKind::run_ended);
  CHECK(last[0].text("state") == "failed");
}
