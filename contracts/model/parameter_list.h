// One list of parameters serves initialisation, optimizer sharding, checkpoints, conversion and clipping. Names are
// Hugging Face's ("model.layers.3.self_attn.q_proj.weight"), tensors unfused, the vocabulary unpadded; matrices are
// [out, in] as in torch.nn.Linear. Hugging Face's GPT-2 has its matrices as [in, out] and q, k, v in one; here it is
// like the others ("transformer.h.3.attn.q_proj.weight"), and engine/model/store/stored_tensors.h turns one into the
// other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "contracts/layout/parallel_dims.h"
#include "contracts/model/model_shape.h"
#include "contracts/pipeline/pipeline_stages.h"

namespace longhaul {

// A rectangular part of a tensor: [offset, offset + extent) per dim.
struct Box {
  std::vector<std::int64_t> offset;
  std::vector<std::int64_t> extent;
  std::int64_t elements() const;
  bool operator==(const Box&) const = default;
};

struct ParameterSpec {
  enum class Init { normal, ones, zeros, uniform };

  std::string name;
  std::vector<std::int64_t> shape;  // global
  Init init = Init::normal;
  double init_std = 0;       // of Init::normal; of Init::uniform the bound on either side of 0
  bool weight_decay = true;  // false for 1-D tensors: norms and biases
  int layer = -1;            // transformer block, -1 for embedding, final norm and output
  int tp_dim = -1;           // the tensor's dim that tp splits: 0 rows, 1 columns, -1: every rank of tp has it whole
  bool last_stage = false;   // stands on the last pipeline stage (final norm, output)
  int expert = -1;           // of a mixture: ep distributes it, and tp_dim is what etp splits; -1: of no expert
  std::int64_t elements() const;
};

// In the order of the forward pass; a tied output is not listed. Of a layer's experts w1 and w3 (gate and up) follow
// each other expert by expert, then come all w2 (down). The router's selection bias is a parameter without gradient.
// Biases are 0, norms' weights 1. Initialisation of matrices: N(0, range); o_proj and down_proj N(0, range / sqrt(2 *
// layers)) (GPT-2 report, section 2.3). Of a shape with an adapter: the adapter's, a valid one
// (contracts/model/adapter_list.h).
std::vector<ParameterSpec> parameter_list(const ModelShape& shape);

// "model.layers.3." or "transformer.h.3."
std::string layer_prefix(const ModelShape& shape, int layer);
// Of the table of tokens; a tied output is the same.
std::string embedding_name(const ModelShape& shape);
// Of the matrix that the output is made with: the embedding where it is tied.
std::string output_name(const ModelShape& shape);
inline constexpr const char* scalar_head_name = "score.weight";
// Of what stands before every text (ModelShape::virtual_tokens), as PEFT names it.
inline constexpr const char* prompt_name = "prompt_embeddings";
// What the names of all parameters of the encoder that makes it begin with (p-tuning).
inline constexpr const char* prompt_encoder_prefix = "prompt_encoder.";
// Of the same where it is keys and values of each layer (ModelShape::virtual_keys).
std::string prefix_keys_name(const ModelShape& shape, int layer);
std::string prefix_values_name(const ModelShape& shape, int layer);
bool is_of_prefix(const ParameterSpec& parameter);
// Of the two layers behind a half of a layer (ModelShape::bottleneck): "model.layers.3.attention_bottleneck." and what
// follows it: down.weight D [size, hidden], down.bias d, up.weight U [hidden, size], up.bias u. Every rank of tp has
// them whole.
enum class LayerHalf { attention, feed_forward };
std::string bottleneck_prefix(const ModelShape& shape, int layer, LayerHalf half);
bool is_of_bottleneck(const ParameterSpec& parameter);

// The weight of a norm, or its bias.
bool is_norm(const ParameterSpec& parameter);

// Does this rank hold (part of) the parameter, and which box of it? Not held: extent 0 in dim 0. Without a stage layout
// the layers are split evenly over pp * vp stages; a given one must be of dims.pp and dims.vp.
Box shard_of(const ParameterSpec& parameter, const ModelShape& shape, const ParallelDims& dims,
             const RankCoordinates& at);
Box shard_of(const ParameterSpec& parameter, const ModelShape& shape, const ParallelDims& dims,
             const RankCoordinates& at, const StageLayout& stages);

// The global stages that hold the parameter: one, or the first and the last for a tied embedding (one where those are
// the same).
std::vector<int> stages_of(const ParameterSpec& parameter, const ModelShape& shape, const StageLayout& stages);

// The number that seeds a parameter's initial values: a hash of its name, the same in every layout.
std::uint64_t parameter_stream(const std::string& name);

}  // namespace longhaul
