// `longhaul tell`: which orders a stage may be given. Pure; the controller places what was accepted where the stage's
// lead finds it (contracts/control/order.h), and writes down what became of it.
#pragma once

#include <string>
#include <vector>

#include "contracts/control/order.h"
#include "orchestrator/state/run_ledger.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

struct OrderAnswer {
  bool accepted = false;
  std::string answer;  // for people; of a refusal: the reason
  std::string stage;   // id, where accepted
  Order order;         // without its id
};

// `arguments` of the request: what, value, stage ("": the one that trains now).
OrderAnswer answer_order(const RunPlan& plan, const RunLedger& ledger, const Value& arguments);

// The arguments of a command line, "checkpoint", "stop-after 500", "set lr=1e-4 checkpoint_interval=100", as arguments
// of one request each. invalid_input names the known orders.
Result<std::vector<Value>> parse_order_arguments(const std::vector<std::string>& arguments, const std::string& stage);

}  // namespace longhaul
