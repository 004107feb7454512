// Memory of a model's forward and backward pass. A slot keeps what one micro-batch needs until its backward is done;
// the workspace is used by one operation at a time. All of it is taken once, at the largest size.
//
// Shapes: t tokens of the micro-batch, h hidden, q / kv projected sizes, f ffn. Types: the compute type, statistics
// f32.
#pragma once

#include <vector>

#include "contracts/model_shape.h"
#include "engine/core/tensor.h"
#include "engine/model/micro_batch.h"

namespace longhaul {

struct BlockActivations {
  View x;                            // [t, h] the block's input
  View input_norm;                   // [t, h]
  View qkv;                          // [t, q + 2 kv], rotated
  View attention;                    // [t, q]
  View middle;                       // [t, h] the residual between the halves
  View post_norm;                    // [t, h]
  View gate_up;                      // [t, 2 f]
  View activated;                    // [t, f]
  View log_sum_exp;                  // [sequences, heads, length] f32
  View input_inv_rms, post_inv_rms;  // [t] f32
};

// What backward_weight needs from backward_input: the gradient at the output of each of the four matrices.
struct BlockGradients {
  View qkv;      // [t, q + 2 kv]
  View o;        // [t, h]
  View gate_up;  // [t, 2 f]
  View down;     // [t, h]
};

struct ActivationSlot {
  MicroBatch batch;
  std::vector<BlockActivations> blocks;
  View x;                                 // [t, h] the last block's output
  View final_norm;                        // [t, h]
  View final_inv_rms;                     // [t] f32
  std::vector<BlockGradients> gradients;  // one per block if the weight backward runs later; one for all otherwise
  View embedding_gradient;                // [t, h]
};

// Scratch that lives inside one operation of one block.
struct Workspace {
  View branch;     // [t, h] a branch's output before it joins the residual; its gradient before the norm
  View dx;         // [t, h] the residual's gradient on its way down
  View activated;  // [t, f] gradient
  View attention;  // [t, q] gradient
};

class Activations {
 public:
  // slots: micro-batches alive at once. split_backward: input and weight backward of a slot run apart (zero-bubble
  // schedules), so their hand-over is kept per slot and block. training = false keeps nothing for a backward.
  Activations(const ModelShape& shape, DType dtype, int slots, std::int64_t tokens_max, bool split_backward,
              bool training, MemoryAccount* account);

  ActivationSlot& slot(int index) { return slots_[static_cast<std::size_t>(index)]; }
  int slots() const { return static_cast<int>(slots_.size()); }
  Workspace& workspace() { return workspace_; }
  BlockGradients& gradients(int slot_index, int block);
  std::int64_t tokens_max() const { return tokens_max_; }
  std::int64_t bytes() const { return arena_.used_bytes(); }
  bool training() const { return training_; }
  bool split_backward() const { return split_backward_; }

 private:
  std::int64_t tokens_max_;
  bool split_backward_, training_;
  Arena arena_;
  std::vector<ActivationSlot> slots_;
  Workspace workspace_;
};

}  // namespace longhaul
