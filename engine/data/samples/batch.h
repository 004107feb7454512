// What a training step reads. Shapes: n samples, s sequence length; row-major.
#pragma once

#include <cstdint>
#include <vector>

namespace longhaul {

struct Batch {
  std::int64_t samples = 0;                  // n
  std::int64_t sequence_length = 0;          // s
  std::vector<std::int32_t> inputs;          // [n, s]
  std::vector<std::int32_t> targets;         // [n, s]  targets[i] is the token after inputs[i]
  std::vector<std::uint8_t> loss_mask;       // [n, s]  1: this target counts in the loss
  std::vector<std::int32_t> document_begin;  // [n, s]  in its sample, or empty: not asked for
};

}  // namespace longhaul
