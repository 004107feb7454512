// What a checkpoint holds: everything a training needs to go on bit for bit as if it had never stopped.
#pragma once

#include <cstdint>
#include <span>

#include "base/value.h"
#include "contracts/model_shape.h"
#include "contracts/parallel_dims.h"
#include "contracts/parameter_layout.h"

namespace longhaul {

// What changes from step to step, beside weights and moments.
struct TrainingProgress {
  std::int64_t step = 0;              // optimizer steps done
  std::int64_t consumed_samples = 0;  // the one global sampler state
  std::int64_t adam_step = 0;
  bool operator==(const TrainingProgress&) const = default;
};

// Borrowed; arrays packed as the layout's owned().
struct TrainingState {
  const ParameterLayout* layout = nullptr;
  ModelShape shape;
  std::span<float> masters, exp_avg, exp_avg_sq;
  TrainingProgress progress;
  std::uint64_t seed = 0;
  Value extra;  // table
};

}  // namespace longhaul
