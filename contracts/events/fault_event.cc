#include "contracts/events/fault_event.h"

namespace longhaul {
namespace {

void set_text(Value& value, const char* key, const std::string& text) {
  if (!text.empty()) value.set(key, text);
}
void set_known(Value& value, const char* key, std::int64_t number) {
  if (number >= 0) value.set(key, static_cast<long long>(number));
}
void set_known_seconds(Value& value, const char* key, double seconds) {
  if (seconds >= 0) value.set(key, seconds);
}

}  // namespace

Value to_value(const FaultEvent& event) {
  Value value = Value::make_table();
  value.set("launch", event.launch);
  value.set("class", event.fault_class);
  value.set("scope", event.scope);
  value.set("severity", event.severity);
  value.set("rank", event.rank);  // also where it is not known: the line's own rank would stand there otherwise
  set_text(value, "host", event.host);
  set_known(value, "step", event.step);
  set_text(value, "section", event.section);
  set_text(value, "cause", event.cause);
  set_text(value, "fingerprint", event.fingerprint);
  set_text(value, "tier", event.tier);
  set_text(value, "next", event.next);
  set_text(value, "reason", event.reason);
  set_known_seconds(value, "detect_s", event.detect_s);
  return value;
}

FaultEvent fault_event_from_value(const Value& value) {
  FaultEvent event;
  event.launch = static_cast<int>(value.get_integer("launch"));
  event.fault_class = value.get_string("class");
  event.scope = value.get_string("scope");
  event.severity = value.get_string("severity");
  event.rank = static_cast<int>(value.get_integer("rank", -1));
  event.host = value.get_string("host");
  event.step = value.get_integer("step", -1);
  event.section = value.get_string("section");
  event.cause = value.get_string("cause");
  event.fingerprint = value.get_string("fingerprint");
  event.tier = value.get_string("tier");
  event.next = value.get_string("next");
  event.reason = value.get_string("reason");
  event.detect_s = value.get_number("detect_s", -1);
  return event;
}

FaultEvent fault_event_of(const Event& event) {
  FaultEvent fault = fault_event_from_value(event.fields);
  fault.rank = event.rank;
  return fault;
}

Value to_value(const RecoveredEvent& event) {
  Value value = Value::make_table();
  value.set("launch", event.launch);
  set_known_seconds(value, "detect_s", event.detect_s);
  set_known_seconds(value, "stop_s", event.stop_s);
  set_known_seconds(value, "queue_s", event.queue_s);
  set_known_seconds(value, "start_s", event.start_s);
  set_known_seconds(value, "load_s", event.load_s);
  set_known_seconds(value, "first_step_s", event.first_step_s);
  set_known_seconds(value, "total_s", event.total_s);
  set_known(value, "lost_steps", event.lost_steps);
  set_known_seconds(value, "teardown_s", event.teardown_s);
  return value;
}

RecoveredEvent recovered_event_from_value(const Value& value) {
  RecoveredEvent event;
  event.launch = static_cast<int>(value.get_integer("launch"));
  event.detect_s = value.get_number("detect_s", -1);
  event.stop_s = value.get_number("stop_s", -1);
  event.queue_s = value.get_number("queue_s", -1);
  event.start_s = value.get_number("start_s", -1);
  event.load_s = value.get_number("load_s", -1);
  event.first_step_s = value.get_number("first_step_s", -1);
  event.total_s = value.get_number("total_s", -1);
  event.lost_steps = value.get_integer("lost_steps", -1);
  event.teardown_s = value.get_number("teardown_s", -1);
  return event;
}

}  // namespace longhaul
