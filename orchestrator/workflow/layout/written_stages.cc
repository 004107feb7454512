#include "orchestrator/workflow/layout/written_stages.h"

#include "base/text/text.h"
#include "orchestrator/workflow/layout/layout_check.h"

namespace longhaul {

SourcePos WrittenStages::place(const PlannedStage& stage, const std::vector<std::string>& keys) const {
  const auto found = stages.find(stage.stage);
  if (found == stages.end()) return stage.where;
  for (const std::string& key : keys) {
    const SourcePos at = place_of_setting(found->second, {key}, stage.where);
    if (!(at == stage.where) && at.file == stage.where.file) return at;  // and not in a recipe
  }
  return stage.where;
}

bool WrittenStages::says(const PlannedStage& stage, const std::string& key) const {
  const auto found = stages.find(stage.stage);
  return found != stages.end() && found->second.find(key) != nullptr;
}

std::string WrittenStages::set_text(const PlannedStage& stage, const std::string& key, const std::string& value) const {
  const Value* at = root.is_table() ? root.find("stage") : nullptr;
  for (const std::string& name : {stage.stage, key}) at = at != nullptr && at->is_table() ? at->find(name) : nullptr;
  const std::string text = at != nullptr && at->is_string() ? at->as_string() : std::string();
  const std::string before = "${params.", behind = "}";
  const bool is_parameter = starts_with(text, before) && text.find(behind) == text.size() - 1;
  const std::string name = is_parameter ? text.substr(2, text.size() - 3) : format("stage.{}.{}", stage.stage, key);
  return format("--set {}={}", name, value);
}

SourcePos WrittenStages::workflow_place(const std::string& key) const {
  const Value* found = workflow.is_table() ? workflow.find(key) : nullptr;
  return found != nullptr ? found->pos : workflow.pos;
}

}  // namespace longhaul
