#include "contracts/model/model_shape.h"

#include <algorithm>
#include <numeric>

#include "base/text/text.h"

namespace longhaul {
namespace {

// Far beyond any model, and small enough that no product of them below overflows 63 bits.
constexpr std::int64_t vocab_size_max = 10'000'000, width_max = 1'000'000, layers_max = 4096, heads_max = 10'000,
                       length_max = 100'000'000, experts_max = 65'536;

Status check_sizes(const ModelShape& s) {
  const struct {
    const char* name;
    std::int64_t value, max;
  } sizes[] = {{"vocab_size", s.vocab_size, vocab_size_max},
               {"hidden_size", s.hidden_size, width_max},
               {"intermediate_size", s.intermediate_size, width_max},
               {"num_hidden_layers", s.num_hidden_layers, layers_max},
               {"num_attention_heads", s.num_attention_heads, heads_max},
               {"num_key_value_heads", s.num_key_value_heads, heads_max},
               {"head_dim", s.head_dim, heads_max},
               {"max_position_embeddings", s.max_position_embeddings, length_max},
               {"sliding_window", s.sliding_window, length_max},
               {"num_local_experts", s.num_local_experts, experts_max},
               {"num_experts_per_tok", s.num_experts_per_tok, experts_max},
               {"moe_intermediate_size", s.moe_intermediate_size, width_max},
               {"n_shared_experts", s.n_shared_experts, 1024},
               {"n_group", s.n_group, experts_max},
               {"virtual_tokens", s.virtual_tokens, virtual_tokens_max},
               {"bottleneck_size", s.bottleneck.size, bottleneck_size_max},
               {"topk_group", s.topk_group, experts_max}};
  for (const auto& size : sizes)
    if (size.value < 0 || size.value > size.max)
      return make_error(ErrorCode::invalid_input, format("{} = {} is absurd", size.name, size.value),
                        format("at most {} is possible here", size.max));
  return {};
}

// Matrices of one layer with `experts` of its experts, and what else it holds.
std::int64_t attention_parameters(const ModelShape& s) {
  return s.hidden_size * (s.q_size() + 2 * s.kv_size()) + s.q_size() * s.hidden_size;
}
std::int64_t feed_forward_parameters(const ModelShape& s, std::int64_t experts) {
  if (!s.is_moe()) return s.hidden_size * (s.mlp_width() + s.intermediate_size);
  return s.hidden_size * s.num_local_experts +
         3 * s.hidden_size * (experts * s.moe_intermediate_size + s.shared_size());
}
std::int64_t bottleneck_matrices(const ModelShape& s) {
  return s.bottleneck.places() * 2 * s.bottleneck.size * s.hidden_size;
}
std::int64_t all_parameters(const ModelShape& s, std::int64_t experts) {
  const std::int64_t output = s.tie_word_embeddings ? 0 : s.output_size() * s.hidden_size;
  const std::int64_t before_text =
      s.virtual_tokens * (s.virtual_keys ? 2 * s.num_hidden_layers * s.kv_size() : s.hidden_size);
  const std::int64_t embeddings = s.vocab_size * s.hidden_size + output + before_text;
  const std::int64_t matrices = attention_parameters(s) + feed_forward_parameters(s, experts) + bottleneck_matrices(s) +
                                s.bottleneck.places() * (s.bottleneck.size + s.hidden_size);  // and the biases of these
  if (s.is_gpt2()) {  // norms have two vectors, linear layers one
    const std::int64_t vectors =
        4 * s.hidden_size + s.q_size() + 2 * s.kv_size() + s.intermediate_size + 2 * s.hidden_size;
    return embeddings + s.max_position_embeddings * s.hidden_size + s.num_hidden_layers * (matrices + vectors) +
           2 * s.hidden_size;
  }
  const std::int64_t vectors = 2 * s.hidden_size + (s.is_moe() && s.router_bias ? s.num_local_experts : 0);
  return embeddings + s.num_hidden_layers * (matrices + vectors) + s.hidden_size;
}

// What the experts' fields say together; fills what is 0.
Status resolve_experts(ModelShape& s) {
  const auto wrong = [](const std::string& what, const std::string& hint) {
    return make_error(ErrorCode::invalid_input, what, hint);
  };
  if (s.architecture != "mixtral") {
    if (s.num_local_experts > 0)
      return wrong(format("num_local_experts = {} with architecture = \"{}\"", s.num_local_experts, s.architecture),
                   "experts need architecture = \"mixtral\"");
    return {};
  }
  if (s.num_local_experts == 0) s.num_local_experts = 8;
  if (s.moe_intermediate_size == 0) s.moe_intermediate_size = s.intermediate_size;
  s.intermediate_size = s.moe_intermediate_size;  // no layer is without experts
  if (s.num_experts_per_tok < 1 || s.num_experts_per_tok > s.num_local_experts)
    return wrong(
        format("num_experts_per_tok = {} of num_local_experts = {}", s.num_experts_per_tok, s.num_local_experts),
        "a token goes to at least one and at most all");
  if (s.n_group < 1 || s.num_local_experts % s.n_group != 0)
    return wrong(format("n_group = {} does not divide num_local_experts = {}", s.n_group, s.num_local_experts),
                 "use a divisor, or 1: no groups");
  if (s.topk_group < 1 || s.topk_group > s.n_group ||
      s.topk_group * (s.num_local_experts / s.n_group) < s.num_experts_per_tok)
    return wrong(format("topk_group = {} of n_group = {} leave fewer than num_experts_per_tok = {} experts, or none",
                        s.topk_group, s.n_group, s.num_experts_per_tok),
                 "raise topk_group");
  return {};
}

// What Hugging Face's GPT-2 has no key for.
Status check_gpt2(const ModelShape& s) {
  if (s.sliding_window > 0)
    return make_error(ErrorCode::invalid_input,
                      format("sliding_window = {}, but gpt2 attends to all tokens", s.sliding_window),
                      "leave it out, or use architecture = \"llama\"");
  if (s.num_key_value_heads != s.num_attention_heads)
    return make_error(
        ErrorCode::invalid_input,
        format("num_key_value_heads = {} differs from num_attention_heads = {}, but gpt2 has one per query "
               "head",
               s.num_key_value_heads, s.num_attention_heads),
        "leave it out, or use architecture = \"llama\"");
  if (s.head_dim * s.num_attention_heads != s.hidden_size)
    return make_error(ErrorCode::invalid_input,
                      format("head_dim({}) * num_attention_heads({}) = {} differs from hidden_size = {}, but gpt2 has "
                             "them equal",
                             s.head_dim, s.num_attention_heads, s.head_dim * s.num_attention_heads, s.hidden_size),
                      "leave head_dim out");
  return {};
}

}  // namespace

bool ModelShape::is_plain_mixtral() const {
  return is_moe() && n_shared_experts == 0 && router_score == "softmax" && !router_bias && routed_scaling_factor == 1 &&
         n_group == 1;
}

std::int64_t ModelShape::parameter_count() const {
  return all_parameters(*this, num_local_experts);
}
std::int64_t ModelShape::active_parameter_count() const {
  return all_parameters(*this, num_experts_per_tok);
}

std::int64_t ModelShape::matmul_parameter_count() const {
  return output_size() * hidden_size +
         num_hidden_layers * (attention_parameters(*this) + feed_forward_parameters(*this, num_experts_per_tok) +
                              bottleneck_matrices(*this));
}

double ModelShape::keys_per_token(std::int64_t sequence_length) const {
  const auto seq = static_cast<double>(sequence_length), window = static_cast<double>(sliding_window);
  return sliding_window == 0 || sliding_window >= sequence_length ? seq / 2 : window - window * window / (2 * seq);
}

double ModelShape::train_flops_per_token(std::int64_t sequence_length) const {
  return 6.0 * static_cast<double>(matmul_parameter_count()) +
         12.0 * static_cast<double>(num_hidden_layers * q_size()) * keys_per_token(sequence_length);
}

const FieldTable<ModelShape>& model_shape_fields() {
  using M = ModelShape;
  static const auto table =
      FieldTable<M>()
          .field("architecture", &M::architecture,
                 {.help = "family of the model, as Hugging Face's model_type; mixtral: every feed-forward layer is a "
                          "mixture of experts",
                  .choices = {"llama", "gpt2", "mixtral"}})
          .field("vocab_size", &M::vocab_size,
                 {.unit = "tokens", .help = "0 takes the tokenizer's size", .min = 0, .max = vocab_size_max})
          .field("hidden_size", &M::hidden_size, {.help = "width of the residual stream", .min = 8, .max = width_max})
          .field("intermediate_size", &M::intermediate_size,
                 {.help = "width of the feed-forward layer; 0 is 8/3 hidden_size rounded up to 64 (llama), 4 "
                          "hidden_size (gpt2)",
                  .min = 0,
                  .max = width_max})
          .field("num_hidden_layers", &M::num_hidden_layers,
                 {.unit = "layers", .help = "transformer blocks", .min = 1, .max = layers_max})
          .field("num_attention_heads", &M::num_attention_heads,
                 {.unit = "heads", .help = "query heads", .min = 1, .max = heads_max})
          .field("num_key_value_heads", &M::num_key_value_heads,
                 {.unit = "heads",
                  .help = "key and value heads (grouped-query attention); 0 is one per query head",
                  .min = 0,
                  .max = heads_max})
          .field("head_dim", &M::head_dim,
                 {.help = "width of one head; 0 is hidden_size / num_attention_heads", .min = 0, .max = heads_max})
          .field("max_position_embeddings", &M::max_position_embeddings,
                 {.unit = "tokens", .help = "longest sequence", .min = 8, .max = length_max})
          .field("sliding_window", &M::sliding_window,
                 {.unit = "tokens",
                  .help = "llama, mixtral: every layer's attention sees so many tokens, the query's own among them; 0: "
                          "all before it",
                  .min = 0,
                  .max = length_max})
          .field("rms_norm_eps", &M::rms_norm_eps, {.help = "epsilon of the norms", .min = 0, .max = 1})
          .field("rope_theta", &M::rope_theta, {.help = "base of the rotary frequencies", .min = 1, .max = 1e12})
          .field("rope_type", &M::rope_type,
                 {.help = "scaling of the rotary frequencies", .choices = {"default", "linear", "llama3"}})
          .field("rope_factor", &M::rope_factor, {.help = "factor of the scaling", .min = 1})
          .field("rope_low_freq_factor", &M::rope_low_freq_factor, {.help = "llama3 scaling", .min = 0})
          .field("rope_high_freq_factor", &M::rope_high_freq_factor, {.help = "llama3 scaling", .min = 0})
          .field("rope_original_max_position_embeddings", &M::rope_original_max_position_embeddings,
                 {.unit = "tokens", .help = "llama3 scaling", .min = 1})
          .field("tie_word_embeddings", &M::tie_word_embeddings, {.help = "output layer shares the embedding"})
          .field("initializer_range", &M::initializer_range,
                 {.help = "standard deviation of initial weights", .min = 0, .max = 10})
          .field("embedding_initializer_range", &M::embedding_initializer_range,
                 {.help = "that of the embedding and the output layer; 0 takes initializer_range", .min = 0, .max = 10})
          .field("num_local_experts", &M::num_local_experts,
                 {.unit = "experts", .help = "mixtral: experts of a layer; 0 is 8", .min = 0, .max = experts_max})
          .field("num_experts_per_tok", &M::num_experts_per_tok,
                 {.unit = "experts", .help = "mixtral: experts that a token goes to", .min = 1, .max = experts_max})
          .field("moe_intermediate_size", &M::moe_intermediate_size,
                 {.help = "mixtral: width of one expert; 0 is intermediate_size", .min = 0, .max = width_max})
          .field("n_shared_experts", &M::n_shared_experts,
                 {.unit = "experts", .help = "mixtral: experts that every token goes to", .min = 0, .max = 1024})
          .field("router_score", &M::router_score,
                 {.help = "mixtral: an expert's weight is the softmax over the selected ones, the softmax over all, or "
                          "the sigmoid divided by the sum over the selected",
                  .choices = {"softmax", "softmax_all", "sigmoid"}})
          .field("router_bias", &M::router_bias,
                 {.help = "mixtral: a bias per expert that only the selection sees; moe.balance = \"bias\" learns it"})
          .field("routed_scaling_factor", &M::routed_scaling_factor,
                 {.help = "mixtral: the weights of the experts are multiplied with it", .min = 0, .max = 1000})
          .field("n_group", &M::n_group,
                 {.unit = "groups", .help = "mixtral: groups of experts; 1 is none", .min = 1, .max = experts_max})
          .field("topk_group", &M::topk_group,
                 {.unit = "groups",
                  .help = "mixtral: groups whose experts a token may go to",
                  .min = 1,
                  .max = experts_max});
  return table;
}

std::vector<std::int32_t> virtual_token_ids(const ModelShape& shape) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(shape.virtual_tokens));
  std::iota(ids.begin(), ids.end(), static_cast<std::int32_t>(shape.vocab_size));
  return ids;
}

std::string virtual_tokens_text(const ModelShape& shape) {
  return format("{} {}", shape.virtual_tokens, shape.virtual_keys ? "keys and values of each layer" : "embeddings");
}

std::vector<std::string> BottleneckShape::after() const {
  std::vector<std::string> names;
  if (after_attention) names.emplace_back("attention");
  if (after_feed_forward) names.emplace_back("feed_forward");
  return names;
}

BottleneckShape bottleneck_of(const AdapterShape& adapter) {
  if (!adapter.is_bottleneck()) return {};
  const auto names = [&](const char* place) {
    return std::ranges::find(adapter.bottleneck_after, place) != adapter.bottleneck_after.end();
  };
  return {adapter.bottleneck_size, names("attention"), names("feed_forward")};
}

std::string bottleneck_text(const ModelShape& shape) {
  return format("bottlenecks of {} after {}", shape.bottleneck.size, join(shape.bottleneck.after(), " and "));
}

ModelShape frozen_shape(ModelShape adapted) {
  if (adapted.adapter.is_prompt()) {
    adapted.virtual_tokens = adapted.adapter.virtual_tokens;
    adapted.virtual_keys = adapted.adapter.is_prefix();
  }
  if (adapted.adapter.is_bottleneck()) adapted.bottleneck = bottleneck_of(adapted.adapter);
  adapted.adapter = {};
  return adapted;
}

ModelShape with_scalar_head(ModelShape shape, std::int64_t labels) {
  shape.scalar_head = true, shape.num_labels = labels, shape.tie_word_embeddings = false;
  return shape;
}

Result<ModelShape> resolve_shape(ModelShape s) {
  LH_CHECK(check_sizes(s));
  if (s.num_key_value_heads == 0) s.num_key_value_heads = s.num_attention_heads;
  if (s.head_dim == 0) {
    if (s.hidden_size % s.num_attention_heads != 0)
      return make_error(
          ErrorCode::invalid_input,
          format("num_attention_heads = {} does not divide hidden_size = {}", s.num_attention_heads, s.hidden_size),
          format("use hidden_size = {} or set head_dim",
                 (s.hidden_size / s.num_attention_heads + 1) * s.num_attention_heads));
    s.head_dim = s.hidden_size / s.num_attention_heads;
  }
  if (s.is_gpt2()) LH_CHECK(check_gpt2(s));
  if (s.head_dim % 2 != 0 && !s.is_gpt2())
    return make_error(ErrorCode::invalid_input, format("head_dim = {} is odd", s.head_dim),
                      "rotary embeddings turn pairs: use an even head_dim");
  if (s.num_attention_heads % s.num_key_value_heads != 0)
    return make_error(ErrorCode::invalid_input,
                      format("num_key_value_heads = {} does not divide num_attention_heads = {}", s.num_key_value_heads,
                             s.num_attention_heads),
                      "query heads share key and value heads evenly: use a divisor, or 0 for one each");
  if (s.intermediate_size == 0 && s.is_gpt2()) s.intermediate_size = 4 * s.hidden_size;
  if (s.intermediate_size == 0) s.intermediate_size = (s.hidden_size * 8 / 3 + 63) / 64 * 64;
  LH_CHECK(resolve_experts(s));
  return s;
}

}  // namespace longhaul
