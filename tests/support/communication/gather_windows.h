// Which windows a rank of ZeRO 3 has for the units of its weights, and which unit it gathers when: a rule without
// memory or messages, which the engine follows (engine/model/store/unit_gather.h) and communication_plan.h counts with.
//
// A unit is gathered at its use; the next one in the direction of the last two uses ahead of its own; what was used
// longest ago makes room.
#pragma once

#include "contracts/plan/training_outline.h"

namespace longhaul {

// How often each unit of the layout is gathered in a step, once the training is under way. ZeRO 1 and 2: once each,
// after the update.
std::vector<std::int64_t> gathers_per_step(const TrainingOutline& outline, const RankOutline& rank);

}  // namespace longhaul
