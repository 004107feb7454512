// Room contracts/control
// What the programs of a running job agree on beside their records: orders, times, exit codes of a round.
// order.h is what `longhaul tell` writes for a lead; control_times.h has the times between lead and agents.
// rendezvous_folder.h is the folder through which ranks find each other before they can send.
// It knows neither tasks nor launches: these times and files are the same for every kind of stage.
//
// The order of a person to a running stage (`longhaul tell`), on its way from the controller to the lead of the stage's
// job: one file per order, created exclusively, in stages/<id>/orders/. It belongs to the stage and not to an attempt:
// a chain of jobs goes on under the same orders. What became of it lies beside it, written once by the lead.
#pragma once

#include <string>
#include <vector>

#include "base/value/value.h"

namespace longhaul {

struct Order {
  std::string id;    // of the request; ids sort by time
  std::string what;  // "checkpoint" | "stop_after" | "checkpoint_interval" | "lr" | "stacks" | "fault"
  double value = 0;  // step, steps, or peak; 0 for the others
  Value fault = {};  // of what = "fault": fault_request_fields() (contracts/settings/job/named_fault.h)

  // Holds for every later start of the ranks as well; a checkpoint is asked for once, and so are stacks and faults.
  bool stands() const { return what != "checkpoint" && what != "stacks" && what != "fault"; }
  std::string text() const;  // "stop after step 500"
};

Value order_to_value(const Order& order);
Result<Order> order_from_value(const Value& value);

std::string orders_folder(const std::string& stage_dir);
// Ok also when it lies there already.
Status place_order(const std::string& stage_dir, const Order& order);
// By id. What cannot be read is left out. Empty without a folder.
std::vector<Order> read_orders(const std::string& stage_dir);

struct OrderOutcome {
  bool done = false;
  std::string text;  // "done at step 513", "refused: ..."
};
// The first outcome of an order counts; a later one is dropped.
Status write_order_outcome(const std::string& stage_dir, const std::string& id, const OrderOutcome& outcome);
Result<OrderOutcome> read_order_outcome(const std::string& stage_dir, const std::string& id);  // not_found: none yet

}  // namespace longhaul
