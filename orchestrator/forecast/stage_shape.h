// The shape of the model that a stage trains or uses, as far as the plan knows it. Pure, but for config.json of a model
// that stands ready as a folder.
#pragma once

#include <optional>

#include "contracts/model/model_shape.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

// nullopt: it has none, or what it has depends on what is not there yet. A vocabulary that is the tokenizer's is 0
// where nobody knows it.
std::optional<ModelShape> stage_shape(const RunPlan& plan, const PlannedStage& stage);

// Of the models that an align stage takes beside the one that it trains (inputs.teacher, inputs.reward); nullopt: as
// above, or there is no such input.
struct ShapesBeside {
  std::optional<ModelShape> teacher, reward;
};
ShapesBeside shapes_beside(const RunPlan& plan, const PlannedStage& stage);

}  // namespace longhaul
