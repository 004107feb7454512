// What the blocks of a forward pass write, layer after layer: one tensor for each place of a block.
#pragma once

#include <cstdint>

#include "contracts/model/model_shape.h"
#include "engine/core/tensor/tensor.h"
#include "engine/model/inference/inference_experts.h"

namespace longhaul {

struct InferenceScratch {
  std::int64_t tokens_max = 0;  // rows of every tensor
  Tensor x, normed, qkv, q, attended, gate_up, activated, out;
  Tensor bottleneck, branch;  // of models with bottlenecks: between their layers, and what they add
  ExpertScratch experts;      // of models with experts, in place of gate_up and activated

  // Room for `tokens`, of which the tensors keep what they have; what was in them is lost where they grow.
  void reserve(const ModelShape& shape, DType dtype, std::int64_t tokens, MemoryAccount* memory) {
    if (tokens <= tokens_max) return;
    tokens_max = tokens;
    const auto take = [&](Tensor& tensor, std::int64_t columns) {
      tensor = Tensor();  // before the larger one is taken
      tensor = Tensor(dtype, {tokens, columns}, memory);
    };
    take(x, shape.hidden_size), take(normed, shape.hidden_size), take(out, shape.hidden_size);
    take(qkv, shape.q_size() + 2 * shape.kv_size()), take(q, shape.q_size()), take(attended, shape.q_size());
    if (shape.is_moe())
      experts.reserve(shape, dtype, tokens, memory);
    else
      take(gate_up, shape.mlp_width()), take(activated, shape.intermediate_size);
    if (shape.bottleneck.size > 0) take(bottleneck, shape.bottleneck.size), take(branch, shape.hidden_size);
  }
};

}  // namespace longhaul
