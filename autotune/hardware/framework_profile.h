// How a training program does its work, as far as that changes how long a step takes. The engine of Longhaul is one;
// the others are those whose published runs the model is fitted to and compared with.
#pragma once

#include <string>

namespace longhaul {

struct FrameworkProfile {
  std::string key;                // "longhaul", "megatron", "fsdp"
  bool fused_attention = true;    // false: scores are written to memory
  double attention_scale = 1;     // of the GPU's share for fused attention
  double tensor_exposed = 1;      // share of tensor-parallel messages that nothing hides
  double data_exposed = 1;        // the same of gradients and weights between data-parallel ranks
  double pipeline_exposed = 1;    // of messages between stages
  double expert_exposed = 1;      // of rows on their way to experts and back
  bool shard_overlap = true;      // ZeRO 3: gathers run ahead
  int gathers_per_layer = 1;      // ZeRO 3: messages that a layer's weights come in
  bool recompute_last = true;     // of a whole layer computed again, also its last product, which nothing needs
  bool split_sends = true;        // ranks of a tp group each send their share to the next stage
  double gradient_bytes = 4;      // of a gradient on its way
  double optimizer_traffic = 30;  // bytes of memory traffic of a weight's update
  double accumulate_traffic = 0;  // and of its gradient's, for every micro-batch
  double backward_products = 2;   // what a layer's products take in its backward pass, of those of its forward pass
  double product_memory = 1;      // share of the memory's rate at which products read and write
  double logit_cost = 0;          // s: of the loss, for a token and a word of the vocabulary, beside its traffic
  double stream_passes = 1;       // of what streams through memory beside products, over what fused kernels need
  bool keeps_qkv = false;         // recomputing attention keeps queries, keys and values: its core alone runs again
  double kernels = 10;            // a layer's forward pass has beside its products; backward twice as many
  double host_layer = 0;          // s: the host needs that long to launch a layer's forward pass
  double host_backward = 2;       // and this multiple of it for its backward pass
  double host_tensor = 0;         // more, as a share, for each further rank of a tp group
  double host_head = 0;           // s: embedding, output and loss, forward and backward
};

}  // namespace longhaul
