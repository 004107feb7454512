// The matrix products of one training step of a model, alone: forward, gradient of the input, gradient of the weights
// of every linear layer and of the output. Each is timed as oneDNN does it best: operands as they lie in the step, and
// with the weights in the layout that the library prefers, made before the clock starts.
#pragma once

#include <cstdint>

#include "contracts/model_shape.h"

namespace longhaul::bench {

struct GemmCeiling {
  double seconds = 0;  // of one step
  double flop = 0;     // 6 * matmul parameters * tokens
};

// bf16 operands; results bf16, those of weights' gradients and logits f32. `rounds`: the best of so many.
GemmCeiling gemm_ceiling(const ModelShape& shape, std::int64_t tokens, int threads, int rounds);

}  // namespace longhaul::bench
