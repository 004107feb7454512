// What the engine refuses of a training before it takes memory: settings, model and layout, nothing of the place where
// it runs.
#pragma once

#include "engine/tasks/common/training_stage.h"

namespace longhaul {

// What a training with the adapter puts before every text of a model of that shape, for fill_examples() and
// fill_scored_rows(); empty: nothing. invalid_input: it leaves no room for a text.
Result<std::vector<std::int32_t>> ids_before_texts(ModelShape shape, const AdapterShape& adapter,
                                                   std::int64_t sequence_length);

// `kind` of the stage; the settings' shape is resolved. invalid_input: numbers that do not go together. unsupported:
// what this version cannot do, with the text of contracts/settings/training/feature_table.h.
Status check_training(const std::string& kind, const TrainingStageSettings& settings, const ParallelDims& dims);

}  // namespace longhaul
