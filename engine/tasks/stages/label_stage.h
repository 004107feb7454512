// A part of run_align: the method that learns from answers which are good or bad by themselves (AlignMethod::labels).
#pragma once

#include "contracts/settings/training/training.h"
#include "engine/data/samples/instruct_data.h"
#include "engine/tasks/common/task_run.h"

namespace longhaul {

// Of settings that check_alignment passes.
Status run_labels(TaskRun& run, const AlignSettings& settings);

// Each prompt with the answer to the next one that asks something else, in the order given, round the end: what the
// divergence is estimated from. Where all prompts are the same, with the next answer. Longer ones are cut off at
// `tokens_max`.
std::vector<ChatTokens> mismatched_answers(const std::vector<LabelledAnswer>& answers, std::int64_t tokens_max);

}  // namespace longhaul
