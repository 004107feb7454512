// From a planned training stage to what the engine's plan of its memory is asked (contracts/plan/memory_plan.h). Pure.
#pragma once

#include <vector>

#include "contracts/plan/training_outline.h"
#include "orchestrator/site/site_config.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

// In the layout that the stage is planned in. unsupported: another kind than pretrain, a model that comes from an
// input. invalid_input: settings that other checks refuse with more words.
Result<TrainingOutline> stage_outline(const PlannedStage& stage, const SiteConfig& site);

// The ranks of the nodes on which a pipeline stage begins, which stand for the others.
std::vector<std::vector<int>> ranks_by_node(const ParallelDims& dims, int ranks_per_node);

}  // namespace longhaul
