// Ranks on processors as a place of the time model.
#pragma once

#include "autotune/time/training_case.h"

namespace longhaul {

inline constexpr const char* processor_key = "cpu-core";            // section of [gpu.*]: one core
inline constexpr const char* processor_framework = "longhaul-cpu";  // section of [framework.*]

// Ranks of `threads` cores each, `ranks_on_node` of them on a node. not_found: constants that lack the sections above.
Result<TrainingPlace> processor_place(const TimeConstants& constants, int threads, int ranks_on_node);

}  // namespace longhaul
