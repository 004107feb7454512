#include "engine/curate/removal_log.h"

#include <utility>

#include "base/value/json.h"

namespace longhaul {

void RemovalLog::begin(std::string step, std::int64_t documents, std::int64_t bytes) {
  waterfall_.begin(std::move(step), documents, bytes);
}

void RemovalLog::note(const CurateDocument& document, const std::string& reason, const std::string& detail) {
  gone_.insert(document.id);
  Value value = Value::make_table();
  value.set("id", document.id);
  value.set("source", document.source);
  value.set("step", steps().back().step);
  value.set("reason", reason);
  value.set("detail", detail);
  lines_ += to_json(value) + "\n";
}

void RemovalLog::remove(const CurateDocument& document, const std::string& reason, const std::string& detail) {
  count(reason, 1, static_cast<std::int64_t>(document.text.size()));
  note(document, reason, detail);
}

}  // namespace longhaul
