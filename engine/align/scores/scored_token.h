// Where the numbers of a sequence stand that is judged as a whole.
#pragma once

#include <cstddef>

#include "engine/align/sequence_objective.h"

namespace longhaul {

// The last token with a target, of the whole batch. The end of the program if there is none.
std::size_t scored_token(const JudgedBatch& batch, std::size_t sequence);

}  // namespace longhaul
