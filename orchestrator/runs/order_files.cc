#include "orchestrator/runs/order_files.h"

#include "orchestrator/state/run_folder.h"

namespace longhaul {

Status place_orders(const std::string& run_dir, const RunLedger& ledger) {
  for (const LedgerOrder& order : ledger.orders)
    if (order.outcome.empty()) LH_CHECK(place_order(stage_folder(run_dir, order.stage), order.order));
  return {};
}

std::map<std::string, OrderOutcome> observe_orders(const std::string& run_dir, const RunLedger& ledger) {
  std::map<std::string, OrderOutcome> outcomes;
  for (const LedgerOrder& order : ledger.orders) {
    if (!order.outcome.empty()) continue;
    auto outcome = read_order_outcome(stage_folder(run_dir, order.stage), order.order.id);
    if (outcome.ok()) outcomes.emplace(order.order.id, std::move(outcome).value());
  }
  return outcomes;
}

}  // namespace longhaul
