// Ranks on processors as a place of the time model.
#pragma once

#include "autotune/time/training_case.h"

namespace longhaul {

// Ranks of `threads` cores each, `ranks_on_node` of them on a node: as they were measured in this precision, where they
// were, else as many cores as [gpu.cpu-core] assumes. not_found: constants that lack that section or the framework's.
Result<TrainingPlace> processor_place(const TimeConstants& constants, int threads, int ranks_on_node,
                                      Precision precision);

}  // namespace longhaul
