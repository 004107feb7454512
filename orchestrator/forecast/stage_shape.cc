#include "orchestrator/forecast/stage_shape.h"

#include <algorithm>

#include "contracts/settings/job/resumable.h"
#include "contracts/settings/training/training.h"
#include "orchestrator/forecast/layout_request.h"
#include "orchestrator/forecast/serving_request.h"
#include "orchestrator/workflow/layout/imported_model.h"

namespace longhaul {
namespace {

bool has_model_input(const PlannedStage& stage) {
  return std::any_of(stage.inputs.begin(), stage.inputs.end(),
                     [](const PlannedInput& input) { return input.name == "model"; });
}

std::optional<ModelShape> shape_of_input(const RunPlan& plan, const PlannedStage& stage, const std::string& name) {
  if (const std::string folder = imported_folder(stage, name); !folder.empty()) {
    auto shape = imported_shape(folder);
    return shape.ok() ? std::optional(std::move(*shape)) : std::nullopt;
  }
  for (const PlannedInput& input : stage.inputs)
    if (input.name == name && input.stages.size() == 1)
      if (const PlannedStage* source = plan.find(input.stages.front())) return stage_shape(plan, *source);
  return std::nullopt;
}

}  // namespace

std::optional<ModelShape> stage_shape(const RunPlan& plan, const PlannedStage& stage) {
  if (!trains(stage.kind)) {
    if (!has_model_input(stage)) return std::nullopt;
    const auto model = model_behind(plan, stage);
    return model.ok() ? std::optional(model->shape) : std::nullopt;
  }
  const StageOrigins origins = origins_of(plan, stage);
  if (origins.model) return origins.model;
  const auto settings = pretrain_fields().parse(stage.settings, "");
  if (stage.kind != "pretrain" || has_model_input(stage) || !settings.ok()) return std::nullopt;
  auto shape = resolve_shape(settings->model);
  if (!shape.ok()) return std::nullopt;
  if (shape->vocab_size == 0) shape->vocab_size = origins.vocabulary;
  return *shape;
}

ShapesBeside shapes_beside(const RunPlan& plan, const PlannedStage& stage) {
  ShapesBeside beside{shape_of_input(plan, stage, "teacher"), shape_of_input(plan, stage, "reward")};
  if (beside.reward) beside.reward = with_scalar_head(std::move(*beside.reward));
  return beside;
}

}  // namespace longhaul
