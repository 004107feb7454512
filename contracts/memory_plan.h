// What one rank will hold, by category, from shapes alone: refused before the first step when it cannot fit, and
// printed beside what was measured.
#pragma once

#include <cstdint>

#include "contracts/model_shape.h"
#include "contracts/parallel_dims.h"

namespace longhaul {

struct TrainingMemoryInput {
  ModelShape shape;
  ParallelDims dims;
  std::int64_t micro_batch_size = 1;  // sequences
  std::int64_t sequence_length = 0;
  int slots = 1;         // micro-batches alive at once, with vp > 1 (micro-batch, chunk) pairs (schedule_slots)
  bool bf16 = true;      // compute type; masters and gradients are f32
  int moment_bytes = 8;  // of both moments of a weight; 0: they are not in memory
  std::int64_t moment_staging_bytes = 0;  // buffers for those
};

struct MemoryPlan {              // bytes
  std::int64_t weights = 0;      // compute copy
  std::int64_t master = 0;       // f32 weights
  std::int64_t gradients = 0;    // f32
  std::int64_t optimizer = 0;    // two moments
  std::int64_t activations = 0;  // all slots
  std::int64_t logits = 0;
  std::int64_t total() const { return weights + master + gradients + optimizer + activations + logits; }
};

// Activation bytes per layer and token follow what engine/model keeps for backward: see the formula in the source.
MemoryPlan plan_training_memory(const TrainingMemoryInput& input);

}  // namespace longhaul
