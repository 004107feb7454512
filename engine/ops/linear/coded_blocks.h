// Weights as codes that each stand for one of a few values, times a scale for each block of neighbours:
//   out[i] = values[code(i)] * scales[i / block]
// a product in f32 that is rounded once, to out's type: the same bits on every device. What is held so, and in which
// formats: contracts/model/coded_weights.h (QLoRA, Dettmers et al. 2023, section 3).
#pragma once

#include <cstdint>
#include <span>

#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/tensor.h"

namespace longhaul {

struct CodedBlocks {
  std::int64_t elements = 0;
  std::int64_t block = 64;        // elements that share a scale, a multiple of 16; the last block may be shorter
  int bits = 4;                   // of a code: 8, or 4: two codes in a byte, the first of them in its upper half
  ConstView codes;                // u8, as many as hold the elements
  std::span<const float> scales;  // of each block
  std::span<const float> values;  // what code 0, 1, .. stands for, at most 2^bits; in the host's memory, always
};

// out [elements], f32 or bf16. No code may be beyond the values.
void decode_blocks(const ComputeContext& context, const CodedBlocks& from, View out);

}  // namespace longhaul
