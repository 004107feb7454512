// The decisions of a round that can be judged alone.
#include "orchestrator/decide/round.h"

#include <doctest/doctest.h>

using namespace longhaul;

namespace {

// Variants of one stage and a stage beside them, all ready, with what a site makes of them.
struct ReadyVariants {
  RunPlan plan;
  SchedulingRules rules;
  Observations seen;
  std::string name = "run";
  RunLedger ledger;

  ReadyVariants() {
    for (const char* variant : {"a", "b", "c"}) {
      PlannedStage stage;
      stage.stage = "sweep", stage.variant = variant, stage.kind = "command";
      plan.stages.push_back(stage);
    }
    PlannedStage other;
    other.stage = "other", other.kind = "command";
    plan.stages.push_back(other);
    std::vector<std::string> ids;
    for (const PlannedStage& stage : plan.stages) ids.push_back(stage.id());
    ledger = RunLedger(ids);
    for (LedgerStage& stage : ledger.stages) stage.state = StageState::ready;
    rules.stages.resize(plan.stages.size());
    rules.array_tasks_max = 100;
  }
  Round round() const { return {plan, rules, seen, name, ledger}; }
};

}  // namespace

TEST_CASE("round: variants that ask for the same and were not tried go together, as many as the array takes") {
  ReadyVariants of;
  CHECK(array_of(of.round(), 0, 100) == std::vector<std::size_t>{0, 1, 2});
  CHECK(array_of(of.round(), 0, 2) == std::vector<std::size_t>{0, 1});
  CHECK(array_of(of.round(), 3, 100) == std::vector<std::size_t>{3});
  of.rules.stages[1].shape = "two nodes";
  CHECK(array_of(of.round(), 0, 100) == std::vector<std::size_t>{0, 2});
  of.rules.stages[1].shape.clear();
  of.ledger.stages[2].state = StageState::waiting;
  CHECK(array_of(of.round(), 0, 100) == std::vector<std::size_t>{0, 1});
  // One that was tried goes alone, and takes nobody along.
  of.ledger.stages[2].state = StageState::ready;
  of.ledger.stages[1].attempts.emplace_back();
  CHECK(array_of(of.round(), 0, 100) == std::vector<std::size_t>{0, 2});
  CHECK(array_of(of.round(), 1, 100) == std::vector<std::size_t>{1});
}

TEST_CASE("round: the next job of a chain is wanted from half of a job on, or at once where one is surely too short") {
  ReadyVariants of;
  StageRules& rules = of.rules.stages[3];
  rules.wall_s = 1000;
  of.seen.now_ms = 2'000'000;
  LedgerStage& stage = of.ledger.stages[3];
  stage.state = StageState::running;
  const auto wanted = [&] {
    const Round round = of.round();
    return wants_successor(round, round.now.stages[3], round.rules.stages[3]);
  };
  stage.started_ms = 1'600'000;
  CHECK_FALSE(wanted());
  stage.started_ms = 1'400'000;
  CHECK(wanted());
  // Its time limit says how much is left: three jobs, of which one has run and one runs.
  of.plan.stages[3].common.time_limit = {3000};
  stage.started_ms = 1'999'000;
  stage.attempts.emplace_back().ran_ms = 1'000'000;
  CHECK(wanted());
  stage.attempts.emplace_back().ran_ms = 1'000'000;
  CHECK_FALSE(wanted());
  // Nothing is queued where the site lets no more jobs wait.
  stage.attempts.pop_back();
  of.rules.submitted_max = 1;
  stage.attempts.emplace_back();
  stage.state = StageState::running;
  CHECK_FALSE(wanted());
}

TEST_CASE("round: what a run has come to is its worst stage, and one that may fail does not count") {
  ReadyVariants of;
  const auto all = [&](StageState state) {
    for (LedgerStage& stage : of.ledger.stages) stage.state = state;
  };
  all(StageState::succeeded);
  CHECK(state_at_end(of.round()) == RunState::succeeded);
  of.ledger.stages[1].state = StageState::failed;
  CHECK(state_at_end(of.round()) == RunState::failed);
  of.plan.stages[1].common.on_failure = "continue";
  CHECK(state_at_end(of.round()) == RunState::succeeded);
  of.ledger.stages[2].state = StageState::skipped;
  CHECK(state_at_end(of.round()) == RunState::succeeded);
  of.plan.stages[1].common.on_failure = "stop";
  of.ledger.stages[3].state = StageState::cancelled;
  CHECK(state_at_end(of.round()) == RunState::cancelled);
}
