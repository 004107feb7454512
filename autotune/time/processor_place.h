// Ranks on processors as a place of the time model.
#pragma once

#include "autotune/time/training_case.h"
#include "contracts/plan/processor_speed.h"

namespace longhaul {

// Ranks of `threads` cores each, `ranks_on_node` of them on a node: as they were measured in this precision, where they
// were, else as many cores as [gpu.cpu-core] assumes. `beside`: ranks that draw answers meanwhile. not_found: constants
// that lack that section or the framework's.
Result<TrainingPlace> processor_place(const TimeConstants& constants, int threads, int ranks_on_node,
                                      Precision precision, const RanksBeside& beside = {});
// Where such ranks were measured; null: nobody did.
const MeasuredProcessor* measured_processor(const TimeConstants& constants, const RankUse& use);
// What a server's operations take on a rank that has its node for itself; not known where none was measured.
ServingSpeed processor_serving(const TimeConstants& constants, int threads, Precision precision);

}  // namespace longhaul
