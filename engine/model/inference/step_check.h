// Whether a forward pass can be done at all: asked before anything is changed. Pure.
#pragma once

#include <cstddef>
#include <span>

#include "base/error/result.h"
#include "contracts/model/model_shape.h"
#include "engine/model/inference/step_table.h"

namespace longhaul {

enum class LogitsWanted {
  last,  // [sequences, vocab]: after each sequence's last token
  all,   // [all tokens of all steps, vocab], in the order of the steps
  none,  // only fill the caches
};

// invalid_input: a token outside the vocabulary, a cache without room, of another type, device or pool than the
// others', or used twice, no sequence, or `logits_room` (numbers) too small for what is wanted.
Status check_steps(const ModelShape& shape, DType dtype, const Device* device, std::span<const SequenceStep> steps,
                   LogitsWanted wanted, std::size_t logits_room);

}  // namespace longhaul
