// What a pretraining reads: the token files of its input `tokens`, or of all inputs that `blend` names, in the order
// that `sampler` chooses. A phase goes on where the phases before left each of its inputs: with t tokens of it read, at
// sample ceil(t / sequence_length) of the input's order of that length. So no sample of an epoch comes twice while the
// length stays; orders of two lengths are two permutations of the same text.
#pragma once

#include "contracts/settings/training/training.h"
#include "contracts/tasks/task.h"
#include "engine/tasks/common/token_files.h"

namespace longhaul {

// ErrorCode::invalid_input, naming the input, if one holds less than one sample, was tokenized with another vocabulary
// than `tokens`, or cannot give its share under blend_policy = "exhaust".
Result<TokenSource> open_pretrain_data(const Task& task, const PretrainSettings& settings);

}  // namespace longhaul
