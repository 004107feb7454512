// What a rank of a training says when it ends on an error, and what becomes of states that may be wrong.
#pragma once

#include <optional>

#include "base/system/clock.h"
#include "contracts/events/event.h"
#include "contracts/events/silent_corruption.h"
#include "contracts/records/launch.h"
#include "engine/checkpoint/local/local_copies.h"
#include "engine/train/step/trainer.h"

namespace longhaul {

// Writes the event "faulted" of this rank: ranks beside the first write no other.
void report_faulted(const Clock& clock, const Launch& launch, int rank, const Error& fault,
                    const std::optional<SilentCorruption>& corruption);

// Collective over `group`, the ranks of the training. Where weights may be wrong the next launch goes on from what was
// saved before anything can have been. As soon as one rank has ended the others may be killed at any moment: before any
// does, the time line says that all later states are abandoned, so that it does not matter which of them are still
// removed. `local_copies` may be null.
void leave_doubtful_states(const SilentCorruption& found, Trainer& trainer, const CheckpointStore& checkpoints,
                           const LocalCopies* local_copies, CollectiveGroup& group, EventWriter& events);

}  // namespace longhaul
