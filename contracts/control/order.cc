#include "contracts/control/order.h"

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/settings/job/named_fault.h"

namespace longhaul {
namespace {
constexpr std::string_view outcome_suffix = ".outcome.json";

std::string order_path(const std::string& stage_dir, const std::string& id) {
  return join_path(orders_folder(stage_dir), id + ".json");
}
std::string outcome_path(const std::string& stage_dir, const std::string& id) {
  return join_path(orders_folder(stage_dir), id + std::string(outcome_suffix));
}
}  // namespace

std::string Order::text() const {
  if (what == "checkpoint" || what == "stacks") return what;
  if (what == "fault") {
    const Result<FaultRequest> request =
        fault.is_table() ? fault_request_fields().parse(fault, "fault") : FaultRequest{};
    return request.ok() ? fault_request_text(*request) : "fault";
  }
  if (what == "stop_after") return format("stop after step {:.0f}", value);
  return format("{} = {:g}", what, value);
}

Value order_to_value(const Order& order) {
  Value table = Value::make_table();
  table.set("id", order.id);
  table.set("what", order.what);
  table.set("value", order.value);
  if (order.fault.is_table()) table.set("fault", order.fault);
  return table;
}

Result<Order> order_from_value(const Value& value) {
  Order order;
  order.id = value.get_string("id");
  order.what = value.get_string("what");
  order.value = value.get_number("value");
  if (const Value* fault = value.find("fault")) order.fault = *fault;
  if (order.id.empty() || order.id.find('/') != std::string::npos || order.what.empty())
    return make_error(ErrorCode::corrupt, "not an order");
  return order;
}

std::string orders_folder(const std::string& stage_dir) {
  return join_path(stage_dir, "orders");
}

Status place_order(const std::string& stage_dir, const Order& order) {
  const std::string path = order_path(stage_dir, order.id);
  if (file_exists(path)) return {};
  LH_CHECK(make_directories(orders_folder(stage_dir)));
  const Status created = create_file_exclusive(path, to_json_pretty(order_to_value(order)));
  return !created.ok() && created.error().code != ErrorCode::conflict ? created : Status();
}

std::vector<Order> read_orders(const std::string& stage_dir) {
  std::vector<Order> orders;
  const auto names = list_directory(orders_folder(stage_dir));
  if (!names.ok()) return orders;
  for (const std::string& name : *names) {
    if (!ends_with(name, ".json") || ends_with(name, outcome_suffix) || starts_with(name, ".")) continue;
    const auto text = read_file(join_path(orders_folder(stage_dir), name), 1 << 16);
    if (!text.ok()) continue;
    const auto value = parse_json(*text, name);
    if (!value.ok()) continue;
    auto order = order_from_value(*value);
    if (order.ok() && order->id + ".json" == name) orders.push_back(std::move(order).value());
  }
  return orders;
}

Status write_order_outcome(const std::string& stage_dir, const std::string& id, const OrderOutcome& outcome) {
  Value table = Value::make_table();
  table.set("done", outcome.done);
  table.set("text", outcome.text);
  const Status created = create_file_exclusive(outcome_path(stage_dir, id), to_json_pretty(table));
  return !created.ok() && created.error().code != ErrorCode::conflict ? created : Status();
}

Result<OrderOutcome> read_order_outcome(const std::string& stage_dir, const std::string& id) {
  LH_TRY(const std::string text, read_file(outcome_path(stage_dir, id), 1 << 16));
  LH_TRY(const Value table, parse_json(text, "outcome of " + id));
  return OrderOutcome{table.get_bool("done"), table.get_string("text")};
}

}  // namespace longhaul
