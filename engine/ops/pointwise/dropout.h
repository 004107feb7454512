// Dropout (Srivastava et al. 2014, section 4) whose mask is a function of what is dropped, not of who drops it or when:
// element (token, channel) of a place in the model is zeroed by bits of Philox{seed, stream} at a counter made of the
// token's position in its sample and the channel; the stream is the sample's place in the global order and the place in
// the model. So every layout, every cut into micro-batches, a recomputation and the backward have the same mask, and
// nothing of it is kept.
//
// Each element takes 16 bits of a block (8 elements a block): the rate is rounded to 1/65536, and what is kept is
// scaled by the inverse of the rounded share, so that its mean stays exact.
#pragma once

#include <cstdint>

#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/tensor.h"

namespace longhaul {

struct DropoutMask {
  double rate = 0;           // 0: nothing is dropped
  std::uint64_t seed = 0;    // the run's
  std::int64_t place = 0;    // in the model, below 2^16
  std::int64_t sample = -1;  // of the first row's sequence, in the global order; -1: nothing is dropped (evaluation)
  std::int64_t length = 1;   // tokens of a sequence
  std::int64_t first = 0;    // token of the micro-batch, counted over its sequences, that row 0 is
  std::int64_t offset = 0;   // of the first of those `length` tokens in its whole sequence (context parallelism)
  // Where x has some columns of a token's row (tensor parallelism): its first one, and how many the row has; 0: x has
  // them all.
  std::int64_t first_column = 0, row_columns = 0;

  bool drops() const { return rate > 0 && sample >= 0; }
};

// out = mask * x / (1 - rate), [rows, columns], f32 or bf16; out may be x. The gradient is the same function of dy.
// The mask must drop.
void dropout(const ComputeContext& context, const DropoutMask& mask, std::int64_t rows, std::int64_t columns,
             ConstView x, View out);

// out = (mask / (1 - rate) - 1) * x: what dropout changes. Else as above.
void dropout_change(const ComputeContext& context, const DropoutMask& mask, std::int64_t rows, std::int64_t columns,
                    ConstView x, View out);

}  // namespace longhaul
