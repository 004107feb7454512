// Room engine/model
// The trainable decoder-only transformer (Llama, GPT-2, Mixtral), forward and backward on micro-batch slots.
// llama.h is the model, block.h one layer, token_embedding.h and output_layer.h its ends; the parts are in layers/,
// experts/ and store/. stage_batches.h brings a batch to where operations compute.
// It does not know generation (inference/ builds on it) nor the trainer, which drives it by a schedule.
//
// A decoder-only transformer as a trainable model (Llama family, GPT-2: contracts/model/model_shape.h): embedding,
// blocks, final norm, output layer (tied or not) with its loss. It works on micro-batch slots, so that a schedule
// (contracts/pipeline/schedule.h) may keep several micro-batches alive.
//
// For one slot: forward, then either token_losses (evaluation) or backward. Deterministic for every number of threads.
// With split_backward a backward is that of the input alone, and the slot is free when backward_weight was called, too.
//
// With pipeline parallelism a model is one stage: its layers, and the embedding or the output where it is an end; a
// rank with several stages (vp) has a model for each. forward and backward receive from the neighbours and send to
// them; a stage that is not the last leaves losses as they are.
//
// Where matrices are split over ranks (tensor parallelism) all ranks of the group make the same calls in the same
// order, on the same micro-batch; a rank that others leave alone keeps the failure in status() and computes nonsense
// until somebody asks.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/model/block.h"
#include "engine/model/experts/moe_state.h"
#include "engine/model/output_layer.h"
#include "engine/model/stage_batches.h"
#include "engine/model/store/gradient_target.h"
#include "engine/model/store/parameter_store.h"
#include "engine/model/token_embedding.h"
#include "engine/parallel/context/context_attention.h"
#include "engine/parallel/context/context_numbers.h"
#include "engine/parallel/pipeline/pipeline_link.h"

namespace longhaul {

struct LlamaOptions {
  int slots = 1;
  std::int64_t tokens_max = 0;         // of a whole micro-batch, padding included
  std::int64_t length_max = 0;         // longest sequence; 0: the shape's max_position_embeddings
  bool split_backward = false;         // backward_weight will be called apart
  int chunk = 0;                       // which of this rank's vp pipeline stages
  Recompute recompute;                 // what is not kept for the backward
  double dropout = 0;                  // of the embedding and of each branch, in training
  std::uint64_t seed = 0;              // of all dropout's masks
  WeightSource* adapted = nullptr;     // what adapts the store and may drop some of its input; borrowed; null: nothing
  bool overlap = true;                 // messages between stages travel beside computation
  bool training = true;                // false: forward and token_losses only, a fraction of the memory
  MemoryAccounts* memory = nullptr;    // borrowed
  Mesh* mesh = nullptr;                // the store's; null: one rank. Outlives the model
  LowPrecisionSettings low_precision;  // checked
  MoeSettings moe;                     // how experts are balanced, where there are any
  ContextAttentionKind context_attention = ContextAttentionKind::ring;  // with cp > 1
  bool overlap_context = true;                                          // ring: messages beside computation
  TensorOverlap overlap_tensor;                                         // tp: rows travel beside products
  bool overlap_experts = true;  // rows travel to and from experts beside computation
};

// The angles of all positions, with what they take.
struct AccountedRope {
  AccountedRope(RopeTable made, MemoryAccount* account) : table(std::move(made)), charge(account) {
    charge.set(bytes_of_vector(table.cosines) + bytes_of_vector(table.sines));
  }
  RopeTable table;
  MemoryCharge charge;
};

// What the ranks of a cp group do together.
struct SharedSequences {
  std::unique_ptr<ContextAttention> attention;  // of all blocks, one at a time
  ContextNumbers numbers;
};

// What ModelDropout borrows.
struct DropoutMemory {
  Tensor masked;                               // where the model drops
  std::unique_ptr<AdapterDropout> of_adapter;  // where an adapter of it does; else null
};

class Llama {
 public:
  // The store must outlive the model; its weights may change between calls.
  Llama(const ParameterStore& parameters, const LlamaOptions& options);

  const ModelShape& shape() const { return parameters_.shape(); }
  std::int64_t activation_bytes() const { return activations_.bytes(); }
  // What grows outside the accounts it was made with, of communication and of experts.
  std::int64_t message_bytes() const { return link_.bytes() + sequences_.numbers.bytes(); }
  std::int64_t expert_bytes() const;

  // What went wrong between the ranks since the model was made; nothing of it is of use then.
  Status status() const;
  // A micro-batch of that many tokens comes next in this direction: what the neighbour sends may be received meanwhile.
  void expect(std::int64_t tokens, bool forward);
  // Lets what is on its way to or from other ranks go on.
  void poll();
  // Until nothing is on its way to another stage: after the last micro-batch of a step.
  void finish_sends() { link_.finish(); }
  // The flat range of an embedding that both ends of a pipeline hold: each has a part of its gradient. Empty elsewhere.
  std::pair<std::int64_t, std::int64_t> tied_gradient() const;
  // Flat ranges whose gradient is this rank's addend only: with sequence parallelism the norms', over other tokens than
  // the other ranks of the tp group. Whoever sums gradients sums these over it as well.
  std::vector<std::pair<std::int64_t, std::int64_t>> partial_gradients() const;

  // What the expert layers share; null where there are none. With it a trainer learns what they counted, and says when
  // the model is judged and not trained.
  MoeState* experts() { return experts_.get(); }
  // What the linear layers know of their low precision; null where there is none. As with experts.
  LowPrecisionState* low_precision() { return low_precision_.get(); }
  // The selection's bias of layer `layer` of the model in the flat arrays, [experts]; -1: none, or on another stage.
  std::int64_t router_bias_begin(int layer) const;

  // Longest sequence that it takes.
  std::int64_t length_max() const { return rope_.table.positions; }
  // Refuses (invalid_input) ids outside the vocabulary and batches larger than the slots.
  Status check(const MicroBatch& batch) const;

  // Up to the final norm. The batch's memory must stay until the slot's last call.
  void forward(const ComputeContext& context, int slot, const MicroBatch& batch);

  // loss[t] = -log p(target of t), 0 where there is none. [tokens] With a scalar head the token's numbers, whatever its
  // target: "loss" below is those [tokens, num_labels], too.
  void token_losses(const ComputeContext& context, int slot, std::span<float> loss);

  // How the sequences of a micro-batch are shared, and the numbers of token_losses of all of them, [sequences, length,
  // numbers of a token], from each rank's own, of a micro-batch of `pieces` (ContextNumbers). A stage that is not the
  // last has none and leaves them.
  const ContextShard& context_shard() const { return sequences_.numbers.shard(); }
  void whole_losses(std::int64_t pieces, std::span<const float> own, std::span<float> whole);

  // Logits of tokens [begin, end) of the slot, f32 [end - begin, vocab]. One rank only.
  void logits(const ComputeContext& context, int slot, std::int64_t begin, std::int64_t end, View out);

  // Gradient of sum over t of weights[t] * loss[t]. Also gives the losses. With split_backward the matrices wait for
  // backward_weight, but for the output layer's, whose gradient comes with its loss.
  void backward(const ComputeContext& context, int slot, std::span<const float> weights, std::span<float> loss,
                const GradientTarget& target);
  void backward_weight(const ComputeContext& context, int slot, const GradientTarget& target);

 private:
  // What a micro-batch weighs in the step's mean.
  void weigh(std::span<const float> weights);
  void drop_embedding(const ComputeContext& context, const MicroBatch& batch, View rows);
  void backward_to_input(const ComputeContext& context, int slot, std::span<const float> weights, std::span<float> loss,
                         const GradientTarget& target);

  const ParameterStore& parameters_;
  int chunk_;
  AccountedRope rope_;
  TensorParallel tensor_;
  PipelineLink link_;
  std::unique_ptr<MoeState> experts_;
  Activations activations_;
  StageBatches batches_;
  std::unique_ptr<LowPrecisionState> low_precision_;
  SharedSequences sequences_;
  DropoutMemory dropout_memory_;
  ModelDropout dropout_;
  std::vector<Block> blocks_;
  std::optional<TokenEmbedding> embedding_;  // on the first stage
  std::optional<OutputLayer> output_;        // on the last
};

}  // namespace longhaul
