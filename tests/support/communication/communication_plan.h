// What one rank of a training will send in a step, by axis of the mesh, from shapes and settings alone. Each formula
// stands in the source beside the function of the engine that sends; tests/parallel/memory_layouts_test.cc compares
// them with what the communicators counted, byte by byte, for every rank of many layouts.
//
// Left out is what the world's own communicator carries: a few numbers per step (agreement, norms, orders), checkpoints
// and evaluations. Where experts are sharded over several ranks, how many rows each gets depends on the data: planned
// is the even spread, which is exact for the sum over all ranks while no token is dropped.
#pragma once

#include "contracts/plan/traffic.h"
#include "contracts/plan/training_outline.h"

namespace longhaul {

// Numbers (f64) that a micro-batch's loss is reported by: loss, what its mean is over, tokens, tokens with padding, and
// five sums and a largest number that an objective names (engine/train/step/objective.h).
inline constexpr std::int64_t loss_numbers = 10;

// Of a step with the largest number of micro-batches. Errors as rank_outline has them.
Result<CommunicationTable> plan_communication(const TrainingOutline& outline, const RankCoordinates& at);

}  // namespace longhaul
