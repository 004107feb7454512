// A searched layout as a stage's table has it. Pure.
#pragma once

#include "autotune/time/training_case.h"
#include "base/value/value.h"

namespace longhaul {

// A layout as a user would write it in a stage's table: parallel = { ... }, micro_batch_size, and what of pipeline,
// recompute and optimizer differs from the defaults.
Value written_layout(const TrainingLayout& layout);

// The same for a stage that has `settings` (resolved): what they say otherwise about pipeline, recomputation or, where
// the layout `decides_offload`, moments is overruled, since stage_with() keeps what is not written. Moments that the
// settings keep on disks of nodes stay there where the layout takes them off the GPU.
Value written_over(const Value& settings, const TrainingLayout& layout, bool decides_offload);

}  // namespace longhaul
