#include "orchestrator/workflow/written_stages.h"

#include "orchestrator/workflow/layout_check.h"

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

SourcePos WrittenStages::workflow_place(const std::string& key) const {
  const Value* found = workflow.is_table() ? workflow.find(key) : nullptr;
  return found != nullptr ? found->pos : workflow.pos;
}

}  // namespace longhaul
