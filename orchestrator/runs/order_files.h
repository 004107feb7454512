// Accepted orders on their way to the leads, and what the leads wrote back (contracts/control/order.h).
#pragma once

#include <map>
#include <string>

#include "contracts/control/order.h"
#include "orchestrator/state/run_ledger.h"

namespace longhaul {

// Every order without outcome lies with its stage afterwards. Done in every round: a killed controller's is caught up.
Status place_orders(const std::string& run_dir, const RunLedger& ledger);

// What is known of those orders, by id.
std::map<std::string, OrderOutcome> observe_orders(const std::string& run_dir, const RunLedger& ledger);

}  // namespace longhaul
