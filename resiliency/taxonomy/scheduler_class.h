// What Slurm's word for the end of a job says (squeue, sacct: "NODE_FAIL", "CANCELLED by 1000", "OUT_OF_ME+").
#pragma once

#include <optional>
#include <string_view>

#include "resiliency/taxonomy/fault_class.h"

namespace longhaul {

// Nothing for a job that has not ended, or a word that is not known.
std::optional<FaultClass> class_of_scheduler_state(std::string_view state, bool we_cancelled);

}  // namespace longhaul
