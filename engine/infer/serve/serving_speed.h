// What the operations of a step of this server take on this processor (contracts/plan/serving_speed.h): products of few
// rows with weights that caches hold and with weights that they do not, attention over a cache, a layer's small
// operations, a draw. Takes 200 MB while it measures.
#pragma once

#include <atomic>

#include "base/system/clock.h"
#include "contracts/plan/serving_speed.h"
#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/dtype.h"

namespace longhaul {

struct ServingSpeedOptions {
  DType dtype = DType::bf16;                // of weights and caches: bf16 or f32
  double seconds = 1;                       // everything is timed at least once, and no new round begins after that
  const std::atomic<bool>* stop = nullptr;  // borrowed; null: nobody asks
};

// On a context of a processor, with all its threads. aborted: stopped.
Result<ServingSpeed> measure_serving(const ComputeContext& context, const ServingSpeedOptions& options,
                                     const Clock& clock);

}  // namespace longhaul
