// What the engine refuses of a training before it takes memory: settings, model and layout, nothing of the place where
// it runs.
#pragma once

#include "engine/tasks/common/training_stage.h"

namespace longhaul {

// `kind` of the stage; the settings' shape is resolved. invalid_input: numbers that do not go together. unsupported:
// what this version cannot do, with the text of contracts/settings/training/feature_table.h.
Status check_training(const std::string& kind, const TrainingStageSettings& settings, const ParallelDims& dims);

}  // namespace longhaul
