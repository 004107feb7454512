// Room contracts/model
// The model as data: its shape, its parameters, and where each of them lies in the flat arrays of a rank.
// Read model_shape.h, then parameter_list.h (names, global shapes), then parameter_layout.h (place in memory).
// hf_config.h reads and writes Hugging Face's config.json; weight_decay.h says which weights decay.
// It knows no settings of a training: the same shape serves training, evaluation and serving.
//
// The shape of a decoder-only transformer, with its arithmetic. Field names are those of Hugging Face's config.json of
// Llama where the two speak of the same thing. Architectures:
//   llama  RMSNorm, rotary positions, grouped-query attention, SwiGLU, no biases
//   gpt2   LayerNorm and linear layers with biases, learned positions, one key-value head per query head, GELU
//   mixtral  as llama, with a mixture of experts in every layer (engine/ops/experts/moe_router.h says what the router's
//   fields
//            mean)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "contracts/model/adapter_shape.h"
#include "contracts/schema/field_table.h"

namespace longhaul {

// Two small layers behind a half of each layer (adapter.kind = "bottleneck", contracts/model/adapter_shape.h).
struct BottleneckShape {
  std::int64_t size = 0;  // of what is between the two; 0: there are none
  bool after_attention = false, after_feed_forward = false;

  std::int64_t places() const { return (after_attention ? 1 : 0) + (after_feed_forward ? 1 : 0); }  // of a layer
  std::vector<std::string> after() const;  // as AdapterShape::bottleneck_after has it
  bool operator==(const BottleneckShape&) const = default;
};
// The one that an adapter adds; of another kind: none.
BottleneckShape bottleneck_of(const AdapterShape& adapter);

struct ModelShape {
  std::string architecture = "llama";  // llama | gpt2 | mixtral
  std::int64_t vocab_size = 0;         // 0: taken from the tokenizer
  std::int64_t hidden_size = 256;
  std::int64_t intermediate_size = 0;  // 0: 8/3 * hidden_size, rounded up to a multiple of 64; gpt2: 4 * hidden_size
  std::int64_t num_hidden_layers = 4;
  std::int64_t num_attention_heads = 4;
  std::int64_t num_key_value_heads = 0;  // 0: as many as attention heads
  std::int64_t head_dim = 0;             // 0: hidden_size / num_attention_heads
  std::int64_t max_position_embeddings = 512;
  std::int64_t sliding_window = 0;  // llama, mixtral: a token attends to so many, itself included; 0: to all before it
  double rms_norm_eps = 1e-5;       // of either norm
  double rope_theta = 10000;
  std::string rope_type = "default";  // default | linear | llama3 (engine/ops/attention/rope.h)
  double rope_factor = 1;
  double rope_low_freq_factor = 1;
  double rope_high_freq_factor = 4;
  std::int64_t rope_original_max_position_embeddings = 8192;
  bool tie_word_embeddings = true;
  double initializer_range = 0.02;
  double embedding_initializer_range = 0;  // 0: initializer_range; Megatron-LM's --embedding-init-method-std

  // Experts. What of them changes the output is shape; how they are balanced is a setting
  // (contracts/settings/training/moe.h).
  std::int64_t num_local_experts = 0;      // 0: no experts, or with mixtral 8
  std::int64_t num_experts_per_tok = 2;    // top_k
  std::int64_t moe_intermediate_size = 0;  // of one expert; 0: intermediate_size
  std::int64_t n_shared_experts = 0;       // that every token goes to, as one of so many times the width
  std::string router_score = "softmax";    // softmax (over the selected) | softmax_all | sigmoid
  bool router_bias = false;                // added for the selection alone
  double routed_scaling_factor = 1;
  std::int64_t n_group = 1, topk_group = 1;  // experts in groups, of which a token may use topk_group
  // Where an adapter is trained beside the model: then the parameters of this shape are the adapter's alone
  // (contracts/model/adapter_list.h). No key of `model`: of the model that computes it says nothing.
  AdapterShape adapter = {};
  // Embeddings that stand before every text: the parameter prompt_embeddings [virtual_tokens, hidden], of which token
  // ids vocab_size, vocab_size + 1, ... are the rows; no token has one in the output. 0: there are none. No key of
  // `model`: an adapter of the kind "prompt" makes them, or config.json says it.
  std::int64_t virtual_tokens = 0;
  // They are no embeddings but keys and values of each layer, the parameters prefix_keys and prefix_values
  // [virtual_tokens, kv_size]: what a layer makes of such an id is not looked at.
  bool virtual_keys = false;
  // Layers that an adapter of the kind "bottleneck" has added, which no weights can take the place of. No key of
  // `model`: the adapter makes them, or config.json says it.
  BottleneckShape bottleneck = {};
  // A reward model: in place of logits the output is num_labels numbers for each token, by score.weight
  // [num_labels, hidden], and the embedding is not tied to it. No keys of `model`: the kind of the stage says it, or
  // config.json.
  bool scalar_head = false;
  std::int64_t num_labels = 1;  // of a scalar head: one reward, or so many attributes

  bool is_moe() const { return num_local_experts > 0; }
  // Runs of one kind of Hugging Face's own; the others have no name there.
  bool is_plain_mixtral() const;
  std::int64_t shared_size() const { return n_shared_experts * moe_intermediate_size; }

  bool is_gpt2() const { return architecture == "gpt2"; }
  std::int64_t q_size() const { return num_attention_heads * head_dim; }
  std::int64_t kv_size() const { return num_key_value_heads * head_dim; }
  // Columns that the first matrix of a feed-forward gives: gate and up, or one.
  std::int64_t mlp_width() const { return is_gpt2() ? intermediate_size : 2 * intermediate_size; }
  // Ids that can be looked up: of tokens, and behind them of what stands before a text.
  std::int64_t ids_end() const { return vocab_size + virtual_tokens; }
  // The longest text that it reads, what stands before it apart.
  std::int64_t text_length_max() const { return max_position_embeddings - virtual_tokens; }
  // Numbers that the output has for each token.
  std::int64_t output_size() const { return scalar_head ? num_labels : vocab_size; }
  // Numbers that a norm keeps of each token for backward: LayerNorm also the mean.
  std::int64_t norm_statistics() const { return is_gpt2() ? 2 : 1; }
  // Every weight once; a tied output counts once.
  std::int64_t parameter_count() const;
  // Those that a token's way leads through: of the experts only num_experts_per_tok.
  std::int64_t active_parameter_count() const;
  // Weights that take part in a matrix product per token (embedding look-up and experts that it does not go to
  // excluded, output included even when tied).
  std::int64_t matmul_parameter_count() const;
  // How many tokens a token of a sequence attends to, on average: seq / 2 (the causal half); with a window w < seq
  // those below the diagonal and not beyond the window, w - w^2 / (2 seq).
  double keys_per_token(std::int64_t sequence_length) const;
  // Training FLOPs per token: 6 * matmul parameters + 12 * layers * heads * head_dim * keys_per_token(seq),
  // forward and backward, no recomputation. Megatron-LM's convention (reference: Narayanan et al. 2021, appendix).
  double train_flops_per_token(std::int64_t sequence_length) const;
  bool operator==(const ModelShape&) const = default;
};
const FieldTable<ModelShape>& model_shape_fields();
// Ids of what stands before every text; empty where nothing does.
std::vector<std::int32_t> virtual_token_ids(const ModelShape& shape);
// "20 embeddings", "20 keys and values of each layer".
std::string virtual_tokens_text(const ModelShape& shape);
// "bottlenecks of 64 after attention and feed_forward".
std::string bottleneck_text(const ModelShape& shape);
// The model beside which an adapter is trained: what it computes with, without the adapter.
ModelShape frozen_shape(ModelShape adapted);
// The reward model that is made of a language model.
ModelShape with_scalar_head(ModelShape shape, std::int64_t labels = 1);

// Fills what is 0 and checks divisibility; `vocab_size` may stay 0 here if the tokenizer is not known yet. Errors name
// the pair that does not fit and the nearest values that do.
Result<ModelShape> resolve_shape(ModelShape shape);

}  // namespace longhaul
