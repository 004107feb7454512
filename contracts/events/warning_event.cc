#include "contracts/events/warning_event.h"

#include <algorithm>

#include "base/text/text.h"

namespace longhaul {
namespace {

WarningEvent warning_of_spike(const Event& event) {
  WarningEvent warning;
  const Value* loss = event.fields.find("loss");
  warning.kind = loss && loss->is_number() ? "loss_spike" : "loss_nan";
  warning.fault_class = warning.kind;
  warning.step = event.fields.get_integer("step", -1);
  warning.text = format("{}; the engine's answer: {}", event.fields.get_string("problem", "a bad step"),
                        event.fields.get_string("action", "none"));
  return warning;
}

}  // namespace

Value to_value(const WarningEvent& event) {
  Value value = Value::make_table();
  value.set("class", event.fault_class);
  value.set("launch", event.launch);
  value.set("rank_of", event.rank);
  if (!event.host.empty()) value.set("host", event.host);
  if (event.step >= 0) value.set("step", static_cast<long long>(event.step));
  if (event.since_step >= 0) value.set("since_step", static_cast<long long>(event.since_step));
  if (event.slowdown > 0) value.set("slowdown", event.slowdown);
  if (event.relative_score > 0) value.set("relative_score", event.relative_score);
  if (event.individual_score > 0) value.set("individual_score", event.individual_score);
  value.set("text", event.text);
  return value;
}

std::optional<WarningEvent> warning_event_of(const Event& event) {
  if (!event.fields.is_table()) return std::nullopt;
  if (event.kind == "spike") return warning_of_spike(event);
  if (std::find(std::begin(warning_event_kinds), std::end(warning_event_kinds), event.kind) ==
      std::end(warning_event_kinds))
    return std::nullopt;
  WarningEvent warning;
  warning.kind = event.kind;
  warning.fault_class = event.fields.get_string("class");
  warning.launch = static_cast<int>(event.fields.get_integer("launch"));
  warning.rank = static_cast<int>(event.fields.get_integer("rank_of", -1));
  warning.host = event.fields.get_string("host");
  warning.step = event.fields.get_integer("step", -1);
  warning.since_step = event.fields.get_integer("since_step", -1);
  warning.slowdown = event.fields.get_number("slowdown");
  warning.relative_score = event.fields.get_number("relative_score");
  warning.individual_score = event.fields.get_number("individual_score");
  warning.text = event.fields.get_string("text");
  return warning;
}

}  // namespace longhaul
