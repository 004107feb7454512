// What the model that `align` starts from says of given answers.
#pragma once

#include <vector>

#include "engine/data/template/chat.h"
#include "engine/tasks/common/task_run.h"
#include "engine/tasks/common/training_stage.h"

namespace longhaul {

// Log-probabilities of the answers, summed over their tokens, under the model as it stands now, which is the
// starting one; where a rank has only a part of it (tp, pp, ZeRO 3), as its folder has it. Collective: each rank
// computes its share, all have the result.
Result<std::vector<double>> reference_scores(TaskRun& run, TrainingStage& stage,
                                             const std::vector<const ChatTokens*>& answers);

}  // namespace longhaul
