// Room engine/checkpoint/state
// What a checkpoint holds of a training: the arrays, the progress, and the places where they may lie.
// training_state.h is the entry; state_array.h is one array in host memory, on a device or on a disk.
// memory_snapshot.h is a copy for a restart within the process; file_state_place.h keeps moments on a disk.
// It knows neither checkpoint folders nor other ranks: those are engine/checkpoint/global's.
//
// What a checkpoint holds: everything a training needs to go on bit for bit as if it had never stopped.
#pragma once

#include <array>
#include <cstdint>

#include "base/value/value.h"
#include "contracts/layout/parallel_dims.h"
#include "contracts/model/model_shape.h"
#include "contracts/model/parameter_layout.h"
#include "engine/checkpoint/state/state_array.h"

namespace longhaul {

// What changes from step to step, beside weights and moments.
struct TrainingProgress {
  std::int64_t step = 0;              // optimizer steps done
  std::int64_t consumed_samples = 0;  // the one global sampler state
  std::int64_t adam_step = 0;
  bool operator==(const TrainingProgress&) const = default;
};

// Types of the three arrays: masters, first and second moments.
using StateTypes = std::array<DType, 3>;
inline constexpr StateTypes all_f32 = {DType::f32, DType::f32, DType::f32};

// Borrowed; arrays packed as the layout's owned().
struct TrainingState {
  const ParameterLayout* layout = nullptr;
  ModelShape shape;
  StateArray masters, exp_avg, exp_avg_sq;
  StateTypes types() const { return {masters.dtype(), exp_avg.dtype(), exp_avg_sq.dtype()}; }
  // Where it was loaded from: loading converts (bf16 to f32 exactly, f32 to bf16 to nearest).
  StateTypes stored_types = all_f32;
  TrainingProgress progress;
  std::uint64_t seed = 0;
  Value extra;  // table
};

}  // namespace longhaul
