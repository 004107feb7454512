#include "orchestrator/workflow/layout/imported_model.h"

#include <algorithm>
#include <set>

#include "base/files/files.h"
#include "contracts/model/hf_config.h"
#include "contracts/tasks/stage_kinds.h"

namespace longhaul {
namespace {

// Inputs of this kind of stage that are models: those that take what a pretraining makes.
bool takes_a_model(const StageKind& kind, const std::string& name) {
  return std::any_of(kind.inputs.begin(), kind.inputs.end(), [&](const StageInput& input) {
    return input.name == name && std::find(input.kinds.begin(), input.kinds.end(), "pretrain") != input.kinds.end();
  });
}

}  // namespace

std::string imported_folder(const PlannedStage& stage, const std::string& name) {
  for (const PlannedInput& input : stage.inputs)
    if (input.name == name && input.stages.empty() && input.paths.size() == 1) return input.paths.front();
  return {};
}

Result<ModelShape> imported_shape(const std::string& folder) {
  const std::string path = join_path(folder, "config.json");
  if (!file_exists(path))
    return make_error(ErrorCode::not_found, "there is no " + path,
                      "a model is a folder with config.json, model.safetensors and tokenizer.json");
  LH_TRY(const HfConfig config, load_hf_config(path));
  return config.shape;
}

void check_imported_models(const RunPlan& plan, Diagnostics& diagnostics) {
  std::set<std::string> seen;
  for (const PlannedStage& stage : plan.stages) {
    const StageKind* kind = find_stage_kind(stage.kind);
    if (kind == nullptr) continue;
    for (const char* name : {"model", "baseline"}) {
      const std::string folder = imported_folder(stage, name);
      if (folder.empty() || !takes_a_model(*kind, name) || !seen.insert(folder).second) continue;
      const auto shape = imported_shape(folder);
      if (shape.ok()) continue;
      std::string what = shape.error().what;
      if (what.find(folder) == std::string::npos) what = join_path(folder, "config.json") + ": " + what;
      diagnostics.add(stage.place_of(std::string("inputs.") + name), what, shape.error().hint);
    }
  }
}

}  // namespace longhaul
