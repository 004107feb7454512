// The output layer of a reward model: `labels` numbers for each token, s[t, i] = w[i] . x[t], where a language model
// has logits. Whoever trains one takes those of the tokens that it asks (engine/align/scores).
#pragma once

#include <span>

#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/tensor.h"

namespace longhaul {

struct ScalarHeadShape {
  std::int64_t tokens = 0, hidden = 0, labels = 1;  // no more labels than hidden
  bool accumulate = true;                           // false: dweight is written
  std::int64_t first = 0;                           // the token of dx's first row: with sequence parallelism
};

// x [tokens, hidden] and weight [labels, hidden] of one type, f32 or bf16; scores [tokens, labels] in f32.
void scalar_head_forward(const ComputeContext& context, const ScalarHeadShape& shape, ConstView x, ConstView weight,
                         std::span<float> scores);

// Of the sum over t, i of weights[t, i] * s[t, i]: dx[t] = sum over i of weights[t, i] w[i] (written), of as many
// tokens from `first` on as dx has rows, and dweight [labels, hidden] += weights[t, i] x[t] in f32, of all tokens
// (empty: not wanted). `scratch` holds tokens * labels numbers of x's type and may not be part of dx: in bf16 the
// weights are rounded there.
void scalar_head_backward(const ComputeContext& context, const ScalarHeadShape& shape, ConstView x, ConstView weight,
                          std::span<const float> weights, View scratch, View dx, View dweight);

}  // namespace longhaul
