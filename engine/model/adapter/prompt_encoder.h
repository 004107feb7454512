// The encoder of p-tuning (contracts/model/adapter_shape.h): P = W3 r(W2 r(W1 E + b1) + b2) + b3 of each row, r(x) =
// max(x, 0); E [tokens, hidden], W1 [size, hidden], W2 [size, size], W3 [hidden, size]. All in f32.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/tensor.h"

namespace longhaul {

struct EncoderWeights {
  std::int64_t tokens = 0, hidden = 0, size = 0;
  std::array<std::span<const float>, 7> values;  // E, W1, b1, W2, b2, W3, b3
};

// P [tokens, hidden]: the end of `workspace`, of which tokens (2 size + max(hidden, 2 size)) elements are used.
View encode_prompt(const ComputeContext& context, const EncoderWeights& encoder, View workspace);

// Of dP [tokens, hidden]. `gradients` in the order of the values, overwritten or added to; the same workspace.
void encode_prompt_backward(const ComputeContext& context, const EncoderWeights& encoder, View gradient,
                            const std::array<std::span<float>, 7>& gradients, bool overwrite, View workspace);

}  // namespace longhaul
