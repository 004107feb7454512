#include "worker/lead/failover/lead_state.h"

#include <algorithm>
#include <utility>

#include "base/value/json.h"
#include "worker/lead/recovery/past_restart.h"
#include "worker/protocol/node/reported_times.h"

namespace longhaul {
namespace {

Value names_to_value(const std::vector<std::string>& names) {
  Value list = Value::make_array();
  for (const std::string& name : names) list.push_back(name);
  return list;
}

std::vector<std::string> names_of(const Value& table, const char* key) {
  std::vector<std::string> names;
  if (const Value* list = table.find(key); list && list->is_array())
    for (const Value& name : list->as_array())
      if (name.is_string()) names.push_back(name.as_string());
  return names;
}

}  // namespace

namespace {

void add_what_grows(const LeadState& state, std::int64_t now_ns, std::int64_t now_ms, Value& value) {
  value.set("told_ms", now_ms);
  if (state.end_by_ns > 0) value.set("left_ms", (state.end_by_ns - now_ns) / 1'000'000);
  value.set("seen", state.seen);
  if (state.goodput) value.set("goodput", state.goodput->snapshot(now_ns / 1'000'000));
}

}  // namespace

Value lead_news_to_value(const LeadState& state, std::int64_t now_ns, std::int64_t now_ms) {
  Value value = Value::make_table();
  value.set("format", LeadState::format);
  add_what_grows(state, now_ns, now_ms, value);
  return value;
}

Value lead_state_to_value(const LeadState& state, std::int64_t now_ns, std::int64_t now_ms) {
  Value value = Value::make_table();
  value.set("format", LeadState::format);
  value.set("attempt_key", state.attempt_key);
  value.set("epoch", state.epoch);
  value.set("started_ms", state.started_ms);
  value.set("lead_host", state.lead_host);
  value.set("led_from", state.led_from);
  value.set("launch", launch_to_value(state.launch));
  value.set("all_hosts", names_to_value(state.hosts.all()));
  value.set("left_hosts", names_to_value(state.hosts.left()));
  value.set("lost_hosts", names_to_value(state.hosts.lost()));  // of those that were left
  value.set("returned_hosts", names_to_value(state.hosts.returned()));
  value.set("wanted_hosts", state.hosts.wanted());
  Value history = Value::make_array();
  for (const PastRestart& past : state.history) history.push_back(past_restart_to_value(past));
  value.set("history", std::move(history));
  value.set("ports", state.ports.text());
  value.set("step", state.step);
  value.set("saved_step", state.judged.saved);
  value.set("checkpoint_step", state.judged.checkpoint);
  add_what_grows(state, now_ns, now_ms, value);
  value.set("trial_hosts", names_to_value(state.trial.nodes()));
  value.set("trial_begun_ms", state.trial.begun_ms());
  value.set("trial_launches", state.trial.launches());
  return value;
}

std::optional<Value> lead_state_within(LeadState state, std::int64_t now_ns, std::int64_t now_ms,
                                       std::size_t bytes_max) {
  for (;;) {
    Value value = lead_state_to_value(state, now_ns, now_ms);
    if (to_json(value).size() <= bytes_max) return value;
    if (state.history.empty()) return std::nullopt;
    const std::size_t half = (state.history.size() + 1) / 2;
    state.history.erase(state.history.begin(), state.history.begin() + static_cast<std::ptrdiff_t>(half));
  }
}

Result<LeadState> lead_state_from_value(const Value& value) {
  if (value.get_integer("format") != LeadState::format || !value.find("launch"))
    return make_error(ErrorCode::corrupt, "this is no state of a lead, or of another release");
  LeadState state;
  state.attempt_key = value.get_string("attempt_key");
  state.epoch = value.get_integer("epoch", 1);
  const ReportedTimes times(value);
  state.started_ms = times.here_ms(value.get_integer("started_ms"));
  state.lead_host = value.get_string("lead_host");
  state.led_from = value.get_string("led_from");
  state.lost = lost_lead_of(value);
  state.asks = value.get_integer("asks");
  LH_TRY(state.ports, parse_port_range(value.get_string("ports")));
  LH_TRY(state.launch, launch_from_value(*value.find("launch")));
  state.hosts = HostPool(names_of(value, "all_hosts"), static_cast<int>(value.get_integer("wanted_hosts")));
  for (const std::string& host : names_of(value, "returned_hosts")) state.hosts.note_returned(host);
  for (const std::string& host : names_of(value, "lost_hosts")) state.hosts.lose(host);
  for (const std::string& host : names_of(value, "left_hosts"))
    if (const auto lost = state.hosts.lost(); std::find(lost.begin(), lost.end(), host) == lost.end())
      state.hosts.leave(host);
  if (const Value* history = value.find("history"); history && history->is_array())
    for (const Value& one : history->as_array()) {
      state.history.push_back(past_restart_from_value(one));
      state.history.back().at_ms = times.here_ms(state.history.back().at_ms);
    }
  state.step = value.get_integer("step", -1);
  state.judged = {value.get_integer("saved_step", -1), value.get_integer("checkpoint_step", -1)};
  if (const Value* seen = value.find("seen"); seen && seen->is_table()) state.seen = *seen;
  if (const Value* goodput = value.find("goodput"))
    state.goodput = GoodputWatch::of(*goodput, times.arrived_ns() / 1'000'000);
  if (const Value* left = value.find("left_ms"); left && left->is_integer())
    state.end_by_ns = times.arrived_ns() + left->as_integer() * 1'000'000;
  state.trial = GrowthTrial::of(names_of(value, "trial_hosts"), times.here_ms(value.get_integer("trial_begun_ms")),
                                static_cast<int>(value.get_integer("trial_launches")));
  return state;
}

}  // namespace longhaul
