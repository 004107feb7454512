// The mixture of experts of one layer for generation and scoring (engine/model/experts/moe_layer.h says what it
// computes): every token goes where it wants, nothing is dropped. Where tokens go is decided where the operations work:
// the host does not wait for it, so that a device's steps can be recorded (decode_graphs.h).
#pragma once

#include "contracts/model/model_shape.h"
#include "engine/model/inference/linear_weights.h"

namespace longhaul {

struct ExpertWeights {
  Tensor router;                              // [experts, hidden] f32
  Tensor bias;                                // [experts] f32, or empty: of the selection
  LinearWeights gate_up;                      // [experts * 2 ffn, hidden], dense
  LinearWeights down;                         // [experts * hidden, ffn], dense
  LinearWeights shared_gate_up, shared_down;  // [2 shared, hidden], [hidden, shared]; out() == 0: none
  std::int64_t bytes() const;
};

// What one layer writes between its input and its output, for every layer the same memory.
struct ExpertScratch {
  std::int64_t tokens_max = 0;
  Tensor x32;                                 // the router's input, where the model is not in f32
  Tensor logits, gates;                       // f32 [tokens, experts], [tokens, top_k]
  Tensor ids, slot_row, row_slot, row_token;  // i32 [tokens * top_k]
  Tensor offsets;                             // i64 [experts + 1]
  Tensor rows, gate_up, activated;            // [tokens * top_k, hidden], [.., 2 ffn], [.., ffn]
  Tensor shared, shared_activated;            // [tokens, 2 shared], [tokens, shared]; empty where there are none

  // Room for so many tokens of a model with experts; what was in it is lost where it grows.
  void reserve(const ModelShape& shape, DType dtype, std::int64_t tokens, MemoryAccount* memory);
  static std::int64_t bytes_for(const ModelShape& shape, DType dtype, std::int64_t tokens);
};

// x, y [tokens, hidden] of the weights' type; y may not be x. The scratch has room for the tokens.
void apply_experts(const ComputeContext& context, const ModelShape& shape, const ExpertWeights& weights,
                   ExpertScratch& scratch, std::int64_t tokens, View x, View y);

}  // namespace longhaul
