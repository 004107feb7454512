// Memory of a model's forward and backward pass. A slot keeps what one micro-batch needs until its backward is done;
// the workspace is used by one operation at a time. All of it is taken once, at the largest size.
//
// Shapes: t tokens of the micro-batch, r those of them whose residual this rank holds (sequence parallelism; else all),
// h hidden, q / kv projected sizes and f ffn as far as this rank computes them (tensor parallelism). Types: the compute
// type, statistics f32.
#pragma once

#include <vector>

#include "contracts/model/model_shape.h"
#include "contracts/settings/training/recompute.h"
#include "engine/core/tensor/tensor.h"
#include "engine/model/layers/micro_batch.h"

namespace longhaul {

// Of the two layers behind a half of a block (engine/model/layers/bottleneck.h). Without them: empty.
struct BottleneckActivations {
  View input;      // [r, h]
  View sum;        // [r, bottleneck.size] GELU's argument
  View activated;  // [r, bottleneck.size]
};

struct BlockActivations {
  View x;                            // [r, h] the block's input
  View input_norm;                   // [r, h]
  View qkv;                          // [t, q + 2 kv], rotated
  View attention;                    // [t, q]
  View middle;                       // [r, h] the residual between the halves
  View post_norm;                    // [r, h]
  View gate_up;                      // [t, 2 f]; GELU: [t, f] its argument
  View activated;                    // [t, f]
  View log_sum_exp;                  // [sequences, heads, length] f32
  View input_inv_rms, post_inv_rms;  // [r] f32; LayerNorm: [r, 2] mean and inverse deviation
  BottleneckActivations attention_bottleneck, feed_forward_bottleneck;
};

// What backward_weight needs from backward_input: the gradient at the output of each of the four matrices.
struct BlockGradients {
  View qkv;      // [t, q + 2 kv]
  View o;        // [t, h]
  View gate_up;  // [t, 2 f]; GELU: [t, f]
  View down;     // [t, h]
  View prefix;   // [2 virtual tokens, kv] f32, sums: of keys and of values before every text; empty: there are none
};

struct ActivationSlot {
  MicroBatch batch;
  std::vector<BlockActivations> blocks;
  View x;                                 // [r, h] the last block's output
  View final_norm;                        // [r, h]
  View final_inv_rms;                     // [r] or [r, 2] f32
  std::vector<BlockGradients> gradients;  // one per block if the weight backward runs later; one for all otherwise
  View embedding_gradient;                // [r, h]
};

// Scratch that lives inside one operation of one block.
struct Workspace {
  View branch;             // [r, h] a branch's output before it joins the residual; its gradient before the norm
  View dx;                 // [r, h] the residual's gradient on its way down
  View activated;          // [t, f] gradient
  View attention;          // [t, q] gradient
  View bottleneck;         // [r, bottleneck.size] gradient; without bottlenecks empty, as the next
  View before_bottleneck;  // [r, h] gradient at what a bottleneck reads
  // Where matrices are split:
  View partial;  // [t, h] f32: this rank's addend
  View landing;  // [t - r, h] f32: the others' addends of this rank's rows
  View full;     // [t, h] what is gathered of all ranks' rows
};

class Activations {
 public:
  // shape: as far as this rank computes it (heads and ffn of its tp shard). rows_max: r of tokens_max; splits: there
  // are other ranks with other shards. slots: micro-batches alive at once. split_backward: input and weight backward of
  // a slot run apart (zero-bubble schedules), so their hand-over is kept per slot and block. training = false keeps
  // nothing for a backward.
  struct Sizes {
    ModelShape shape;
    DType dtype = DType::f32;
    int slots = 1;
    std::int64_t tokens_max = 0, rows_max = 0;
    bool splits = false, split_backward = false, training = true;
    Recompute recompute;  // what is not kept lies in one memory for all layers and slots
  };
  Activations(const Sizes& sizes, MemoryAccount* account);
  static std::int64_t bytes_for(const Sizes& sizes);

  ActivationSlot& slot(int index) { return slots_[static_cast<std::size_t>(index)]; }
  int slots() const { return static_cast<int>(slots_.size()); }
  Workspace& workspace() { return workspace_; }
  BlockGradients& gradients(int slot_index, int block);
  std::int64_t tokens_max() const { return sizes_.tokens_max; }
  std::int64_t bytes() const { return arena_.used_bytes(); }
  bool training() const { return sizes_.training; }
  bool split_backward() const { return sizes_.split_backward; }
  // What the layer has to compute again before its backward.
  Recompute recompute(int block) const { return sizes_.training ? sizes_.recompute.of_layer(block) : Recompute(); }

 private:
  Sizes sizes_;
  Arena arena_;
  std::vector<ActivationSlot> slots_;
  Workspace workspace_;
};

}  // namespace longhaul
