#include "orchestrator/workflow/layout/imported_model.h"

#include <algorithm>
#include <set>

#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/model/hf_config.h"
#include "contracts/tasks/stage_kinds.h"

namespace longhaul {
namespace {

// Inputs of this kind of stage that are models: those that take what a pretraining, or a reward stage makes.
bool takes(const StageKind& kind, const std::string& name, const char* made_by) {
  return std::any_of(kind.inputs.begin(), kind.inputs.end(), [&](const StageInput& input) {
    return input.name == name && std::find(input.kinds.begin(), input.kinds.end(), made_by) != input.kinds.end();
  });
}

// What read_hf_config() reports, which has a line for each problem and one that counts them, as one line that begins
// with the file.
std::string one_line(const std::string& reported) {
  const std::string mark = ": error: ";
  std::vector<std::string> lines = split(reported, '\n');
  if (lines.size() > 1) lines.pop_back();
  for (std::size_t i = 1; i < lines.size(); ++i)
    if (const std::size_t at = lines[i].find(mark); at != std::string::npos) lines[i].erase(0, at + mark.size());
  return replace_all(join(lines, "; "), mark, ": ");
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

void check_imported_models(const RunPlan& plan, const WrittenStages& written, Diagnostics& diagnostics) {
  std::set<std::string> seen;
  for (const PlannedStage& stage : plan.stages) {
    const StageKind* kind = find_stage_kind(stage.kind);
    if (kind == nullptr) continue;
    for (const char* name : {"model", "baseline", "reward", "judge", "teacher"}) {
      const std::string folder = imported_folder(stage, name);
      const bool judges = takes(*kind, name, "reward");
      if (folder.empty()) continue;
      if (file_exists(folder) && !is_directory(folder)) continue;  // which the look at inputs says (raw_inputs.h)
      if ((!takes(*kind, name, "pretrain") && !judges) || !seen.insert(folder).second) continue;
      const auto shape = imported_shape(folder);
      const SourcePos place = written.place(stage, {std::string("inputs.") + name});
      if (shape.ok() && shape->scalar_head && !judges)
        diagnostics.add(place, folder + " is a reward model, which writes no text",
                        "it judges answers: inputs.reward of an align stage with reward.kind = \"model\"");
      if (shape.ok() && !shape->scalar_head && std::string(name) == "reward")
        diagnostics.add(place, folder + " is no reward model", "a stage of the kind reward makes one");
      if (shape.ok()) continue;
      std::string what = one_line(shape.error().what);
      if (what.find(folder) == std::string::npos) what = join_path(folder, "config.json") + ": " + what;
      diagnostics.add(place, what, shape.error().hint);
    }
  }
}

}  // namespace longhaul
