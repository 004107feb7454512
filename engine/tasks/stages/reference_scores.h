// What the model that `align` starts from says of given answers.
#pragma once

#include <vector>

#include "engine/data/template/chat.h"
#include "engine/tasks/common/task_run.h"
#include "engine/tasks/common/training_stage.h"

namespace longhaul {

// Log-probabilities of the answers, summed over their tokens, under the model as it stands now, which is the
// starting one; where a rank has only a part of it (tp, pp, ZeRO 3), on processors as its folder has it, on GPUs by the
// ranks of a replica together. An adapter changes nothing of it yet, and what that puts before texts does not stand
// before these. Collective: each rank, or replica, computes its share, all have the result. There is at least one
// answer.
Result<std::vector<double>> reference_scores(TaskRun& run, TrainingStage& stage,
                                             const std::vector<const ChatTokens*>& answers);

}  // namespace longhaul
