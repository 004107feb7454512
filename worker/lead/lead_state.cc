#include "worker/lead/lead_state.h"

#include <algorithm>

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

template <class Enum>
Enum named(const std::string& text, int count, Enum otherwise) {
  for (int i = 0; i < count; ++i)
    if (text == to_string(static_cast<Enum>(i))) return static_cast<Enum>(i);
  return otherwise;
}

Value restart_to_value(const PastRestart& past) {
  Value one = Value::make_table();
  one.set("at_ms", past.at_ms);
  one.set("cause", past.cause);
  one.set("scope", to_string(past.scope));
  one.set("host", past.host);
  one.set("made_progress", past.made_progress);
  one.set("tier", to_string(past.tier));
  one.set("fault", past.fault);
  one.set("accuses", to_string(past.accuses));
  one.set("forgiven", past.forgiven);
  return one;
}

PastRestart restart_of(const Value& one) {
  PastRestart past;
  past.at_ms = one.get_integer("at_ms");
  past.cause = one.get_string("cause");
  past.scope = named(one.get_string("scope"), 6, FaultScope::rank);
  past.host = one.get_string("host");
  past.made_progress = one.get_bool("made_progress");
  past.tier = named(one.get_string("tier"), restart_tiers, RestartTier::in_job);
  past.fault = one.get_string("fault");
  past.accuses = named(one.get_string("accuses"), 3, Accusation::never);
  past.forgiven = one.get_bool("forgiven");
  return past;
}

}  // namespace

Value lead_state_to_value(const LeadState& state) {
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
  for (const PastRestart& past : state.history) history.push_back(restart_to_value(past));
  value.set("history", std::move(history));
  value.set("step", state.step);
  value.set("saved_step", state.saved_step);
  value.set("end_by_ms", state.end_by_ms);
  value.set("trial_hosts", names_to_value(state.trial.nodes()));
  value.set("trial_begun_ms", state.trial.begun_ms());
  value.set("trial_launches", state.trial.launches());
  return value;
}

Result<LeadState> lead_state_from_value(const Value& value) {
  if (value.get_integer("format") != LeadState::format || !value.find("launch"))
    return make_error(ErrorCode::corrupt, "this is no state of a lead, or of another release");
  LeadState state;
  state.attempt_key = value.get_string("attempt_key");
  state.epoch = value.get_integer("epoch", 1);
  state.started_ms = value.get_integer("started_ms");
  state.lead_host = value.get_string("lead_host");
  state.led_from = value.get_string("led_from");
  state.lost = lost_lead_of(value);
  LH_TRY(state.launch, launch_from_value(*value.find("launch")));
  state.hosts = HostPool(names_of(value, "all_hosts"), static_cast<int>(value.get_integer("wanted_hosts")));
  for (const std::string& host : names_of(value, "returned_hosts")) state.hosts.note_returned(host);
  for (const std::string& host : names_of(value, "lost_hosts")) state.hosts.lose(host);
  for (const std::string& host : names_of(value, "left_hosts"))
    if (const auto lost = state.hosts.lost(); std::find(lost.begin(), lost.end(), host) == lost.end())
      state.hosts.leave(host);
  if (const Value* history = value.find("history"); history && history->is_array())
    for (const Value& one : history->as_array()) state.history.push_back(restart_of(one));
  state.step = value.get_integer("step", -1);
  state.saved_step = value.get_integer("saved_step", -1);
  state.end_by_ms = value.get_integer("end_by_ms");
  state.trial = GrowthTrial::of(names_of(value, "trial_hosts"), value.get_integer("trial_begun_ms"),
                                static_cast<int>(value.get_integer("trial_launches")));
  return state;
}

}  // namespace longhaul
