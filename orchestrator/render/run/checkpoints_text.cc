#include "orchestrator/render/run/checkpoints_text.h"

#include <algorithm>

#include "base/text/text.h"
#include "orchestrator/render/draw/text_table.h"
#include "orchestrator/render/run/status_text.h"

namespace longhaul {

std::string checkpoints_text(const std::vector<ShownCheckpoint>& checkpoints, std::int64_t now_ms) {
  std::vector<std::vector<std::string>> rows = {{"stage", "step", "age", "size", "loss", "heldout_loss", "stays"}};
  const auto number = [](const std::optional<double>& value) { return value ? figure_text(*value) : std::string(); };
  for (const ShownCheckpoint& one : checkpoints) {
    const double age_s = static_cast<double>(std::max<std::int64_t>(0, now_ms - one.saved_ms)) * 1e-3;
    std::vector<std::string> stays;
    if (one.newest) stays.emplace_back("newest");
    if (one.pinned) stays.emplace_back("kept");
    rows.push_back({one.stage, std::to_string(one.step), one.saved_ms > 0 ? human_duration(age_s) : "",
                    human_bytes(one.bytes), number(one.loss), number(one.heldout_loss), join(stays, ", ")});
  }
  return text_table(rows);
}

Value checkpoints_value(const std::string& run, const std::vector<ShownCheckpoint>& checkpoints) {
  Value document = Value::make_table();
  document.set("file", "longhaul checkpoints");
  document.set("format", 1);
  document.set("run", run);
  Value& list = document.set("checkpoints", Value::make_array());
  const auto number = [](const std::optional<double>& value) { return value ? Value(*value) : Value(); };
  for (const ShownCheckpoint& one : checkpoints) {
    Value entry = Value::make_table();
    entry.set("stage", one.stage);
    entry.set("step", static_cast<long long>(one.step));
    entry.set("path", one.path);
    entry.set("saved_ms", one.saved_ms > 0 ? Value(static_cast<long long>(one.saved_ms)) : Value());
    entry.set("bytes", one.bytes);
    entry.set("loss", number(one.loss));
    entry.set("heldout_loss", number(one.heldout_loss));
    entry.set("newest", one.newest);
    entry.set("pinned", one.pinned);
    list.push_back(std::move(entry));
  }
  return document;
}

}  // namespace longhaul
