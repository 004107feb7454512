// The matrix products of one training step of a model, alone: forward, gradient of the input, gradient of the weights
// of every linear layer and of the output. Each is timed as oneDNN does it best on this processor: in bf16 where it has
// code for that, and in f32; operands as they lie in the step, and with the weights in the layout that the library
// prefers, made before the clock starts.
#pragma once

#include <cstdint>
#include <string>

#include "contracts/model/model_shape.h"

namespace longhaul::bench {

struct GemmCeiling {
  double seconds = 0;  // of one step
  double flop = 0;     // 6 * matmul parameters * tokens
  double bf16 = 0;     // of the seconds, what bf16 was the faster format for
  // Formats that the library has no code for on this processor, as text for a person; empty: none.
  std::string missing;
};

// Operands in the better format of the two; results in bf16 or f32 with it, those of weights' gradients and logits f32.
// `rounds`: the best of so many. flop = 0: the library has no code for any product here, which `missing` says.
GemmCeiling gemm_ceiling(const ModelShape& shape, std::int64_t tokens, int threads, int rounds);

}  // namespace longhaul::bench
