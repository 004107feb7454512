// The mixture of experts of one layer for generation and scoring (engine/model/experts/moe_layer.h says what it
// computes): every token goes where it wants, nothing is dropped.
#pragma once

#include <vector>

#include "contracts/model/model_shape.h"
#include "engine/model/inference/linear_weights.h"

namespace longhaul {

struct ExpertWeights {
  Tensor router;                              // [experts, hidden] f32
  std::vector<float> bias;                    // [experts], or empty: of the selection
  LinearWeights gate_up;                      // [experts * 2 ffn, hidden], dense
  LinearWeights down;                         // [experts * hidden, ffn], dense
  LinearWeights shared_gate_up, shared_down;  // [2 shared, hidden], [hidden, shared]; out() == 0: none
  std::int64_t bytes() const;
};

// x, y [tokens, hidden] of the weights' type; y may not be x.
void apply_experts(const ComputeContext& context, const ModelShape& shape, const ExpertWeights& weights,
                   std::int64_t tokens, View x, View y);

}  // namespace longhaul
