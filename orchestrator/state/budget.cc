#include "orchestrator/state/budget.h"

#include <algorithm>

namespace longhaul {

double spent_node_ms(const LedgerStage& stage, const PlannedStage& planned, std::int64_t now_ms) {
  if (const Value* hours = stage.figures.find("node_hours");
      (planned.kind == "tune" || planned.kind == "search") && stage.state == StageState::succeeded && hours)
    return hours->as_number() * 3.6e6;  // of its trials: it has no job of its own
  std::int64_t ms = 0;
  for (const LedgerAttempt& attempt : stage.attempts) ms += std::max<std::int64_t>(0, attempt.ran_ms);
  if (stage.state == StageState::running && stage.started_ms > 0)
    ms += std::max<std::int64_t>(0, now_ms - stage.started_ms);
  return static_cast<double>(ms) * planned.common.nodes_with_spares();
}

double spent_node_hours(const RunLedger& ledger, const RunPlan& plan, std::int64_t now_ms) {
  double node_ms = 0;
  const std::size_t count = std::min(ledger.stages.size(), plan.stages.size());
  for (std::size_t i = 0; i < count; ++i)  // both in plan order
    node_ms += spent_node_ms(ledger.stages[i], plan.stages[i], now_ms);
  return node_ms / 3.6e6;
}

bool budget_spent(const RunLedger& ledger, const RunPlan& plan, std::int64_t now_ms) {
  return plan.budget_node_hours > 0 && spent_node_hours(ledger, plan, now_ms) >= plan.budget_node_hours;
}

}  // namespace longhaul
