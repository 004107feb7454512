// Reads of a checkpoint what this rank holds, however many ranks wrote it.
#pragma once

#include <string>

#include "base/error/result.h"
#include "engine/checkpoint/state/training_state.h"

namespace longhaul {

// Fills the state's arrays, progress, seed and extra from one checkpoint: of it the entries that this rank needs,
// verified; several threads read. Not collective. Errors: invalid_input where it is of a model of another shape,
// corrupt where it is damaged or a tensor is missing; the state is then partly filled.
Status load_checkpoint(const std::string& path, TrainingState& state, int threads = 1);

}  // namespace longhaul
