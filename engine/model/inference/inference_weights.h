// A model's weights as serving holds them: q, k, v of a block as one matrix, gate and up as one, so that a token costs
// four products a block.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "contracts/model/model_shape.h"
#include "engine/model/inference/inference_experts.h"
#include "engine/model/inference/linear_weights.h"

namespace longhaul {

struct NormWeights {
  WeightTensor weight, bias;  // [hidden]; RMSNorm has no bias
  std::int64_t bytes() const { return weight.bytes() + bias.bytes(); }
};

// Two layers behind a half of a block (engine/model/layers/bottleneck.h); empty (bytes() == 0): none.
struct BottleneckWeights {
  LinearWeights down;  // [size, hidden], with its bias
  LinearWeights up;    // [hidden, size], with its bias
  bool is_there() const { return up.out() > 0; }
  std::int64_t bytes() const { return is_there() ? down.bytes() + up.bytes() : 0; }
};

struct InferenceWeights {
  struct Block {
    NormWeights input_norm, post_attention_norm;
    LinearWeights qkv;      // [q + 2 kv, hidden]
    LinearWeights o;        // [hidden, q]
    LinearWeights gate_up;  // [2 ffn, hidden]; GPT-2: [ffn, hidden]
    LinearWeights down;     // [hidden, ffn]
    ExpertWeights experts;  // instead of these two, where the model has experts
    Tensor prefix;          // [virtual_tokens, q + 2 kv]: 0, keys, values before every text; empty: there are none
    BottleneckWeights attention_bottleneck, feed_forward_bottleneck;
  };
  InferenceWeights() = default;
  InferenceWeights(InferenceWeights&&) = default;
  InferenceWeights& operator=(InferenceWeights&&) = delete;  // the old tensors would outlive their account

  std::unique_ptr<MemoryAccount> memory;  // of its tensors and where they lie; null: the host's, nobody counts

  LinearWeights embedding;    // [vocab, hidden]; the output too when tied
  std::int64_t first_id = 0;  // of the embedding's first row, where ranks have a part each (inference_ranks.h)
  LinearWeights positions;    // [max_position_embeddings, hidden]; empty (out() == 0) where they are not learned
  LinearWeights prompt;       // [virtual_tokens, hidden]; empty (out() == 0) where no embeddings stand before a text
  std::vector<Block> blocks;
  NormWeights final_norm;
  LinearWeights output;      // [vocab, hidden]; empty (out() == 0) when tied
  DType dtype = DType::f32;  // of norms, dense weights and activations

  const LinearWeights& output_weights() const { return output.out() > 0 ? output : embedding; }
  std::int64_t bytes() const;
  Device* device() const { return memory ? memory->device : nullptr; }  // null: the host's memory
};

// Block::prefix, of the type of keys and values [virtual_tokens, kv] of one layer, both on the host, which a cache
// takes as rows of q, k and v. It lies where the account says; null: the host, and nobody counts.
Tensor prefix_rows(const ModelShape& shape, ConstView keys, ConstView values, MemoryAccount* memory);

// Reads `<folder>/model.safetensors` (or the shards of model.safetensors.index.json) into `dtype`. F32, BF16 and F16
// tensors are converted; an I8 or F8_E4M3 tensor "<name>" needs "<name>_scale", one per row, and stays int8 or fp8;
// where "<name>_packed" is, the matrix is int4, with "<name>_scale" for groups of 128, 64 or 32 (the forms of
// engine/quantize/weight_format.h). Errors name the tensor that is missing, or its shape beside the one expected. With
// a device the weights lie there, and the host holds a few megabytes of them at a time (GPT-2's once, in f32).
// `whole`: counts what they, caches and scratch memory take as well; null: nobody does.
Result<InferenceWeights> load_inference_weights(const std::string& folder, const ModelShape& shape, DType dtype,
                                                Device* device = nullptr, MemoryAccount* whole = nullptr);

}  // namespace longhaul
