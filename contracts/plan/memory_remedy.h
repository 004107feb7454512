// What to change where the memory of a training does not suffice.
#pragma once

#include <string>

#include "contracts/plan/memory_category.h"
#include "contracts/plan/training_outline.h"

namespace longhaul {

// Settings that make a category smaller, as the end of an error: "use a larger tp, which splits the vocabulary".
std::string memory_remedy(MemoryCategory category, const TrainingOutline& outline);

}  // namespace longhaul
