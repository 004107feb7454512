#include "orchestrator/state/fact.h"

#include <array>

#include "base/system/clock.h"
#include "base/value/json.h"

namespace longhaul {
namespace {
constexpr std::array<const char*, static_cast<std::size_t>(FactKind::count)> kind_names = {
    "epoch",       "adopted",         "request",
    "ready",       "cached",          "submit",
    "submit_next", "submitted",       "refused",
    "started",     "requeued",        "release_job",
    "released",    "succeeded",       "retry",
    "go_on",       "failed",          "cancel_job",
    "cancel_sent", "cancelled",       "skipped",
    "reset",       "run_ended",       "order_ended",
    "milestone",   "lift_exclusions", "exclusions_lifted",
    "noticed",     "held_up",         "left",
    "kept"};
}  // namespace

const char* to_string(FactKind kind) {
  return kind == FactKind::count ? "none" : kind_names[static_cast<std::size_t>(kind)];
}

std::string fact_line(const Fact& fact) {
  Value line = Value::make_table();
  line.set("t", utc_text(fact.wall_ms));
  line.set("ms", static_cast<long long>(fact.wall_ms));
  line.set("fact", to_string(fact.kind));
  if (!fact.stage.empty()) line.set("stage", fact.stage);
  if (fact.attempt != 0) line.set("attempt", fact.attempt);
  if (fact.fields.is_table() && fact.fields.size() > 0) line.set("with", fact.fields);
  return to_json(line) + "\n";
}

Result<Fact> parse_fact(std::string_view line) {
  LH_TRY(const Value value, parse_json(line, "fact"));
  const std::string name = value.get_string("fact");
  Fact fact;
  for (std::size_t i = 0; i < kind_names.size(); ++i)
    if (name == kind_names[i]) fact.kind = static_cast<FactKind>(i);
  if (fact.kind == FactKind::count)
    return make_error(ErrorCode::corrupt, "not a fact that this version knows: '" + name + "'");
  fact.wall_ms = value.get_integer("ms");
  fact.stage = value.get_string("stage");
  fact.attempt = static_cast<int>(value.get_integer("attempt"));
  if (const Value* with = value.find("with")) fact.fields = *with;
  return fact;
}

}  // namespace longhaul
