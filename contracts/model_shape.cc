#include "contracts/model_shape.h"

#include "base/text.h"

namespace longhaul {
namespace {

// Far beyond any model, and small enough that no product of them below overflows 63 bits.
constexpr std::int64_t vocab_size_max = 10'000'000, width_max = 1'000'000, layers_max = 4096, heads_max = 10'000,
                       length_max = 100'000'000;

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
               {"max_position_embeddings", s.max_position_embeddings, length_max}};
  for (const auto& size : sizes)
    if (size.value < 0 || size.value > size.max)
      return make_error(ErrorCode::invalid_input, format("{} = {} is absurd", size.name, size.value),
                        format("at most {} is possible here", size.max));
  return {};
}

// What Hugging Face's GPT-2 has no key for.
Status check_gpt2(const ModelShape& s) {
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

std::int64_t ModelShape::parameter_count() const {
  const std::int64_t embeddings = vocab_size * hidden_size * (tie_word_embeddings ? 1 : 2);
  const std::int64_t matrices = matmul_parameter_count() - vocab_size * hidden_size;
  if (!is_gpt2()) return embeddings + matrices + (2 * num_hidden_layers + 1) * hidden_size;
  // Norms have two vectors, linear layers one.
  const std::int64_t vectors = 4 * hidden_size + q_size() + 2 * kv_size() + intermediate_size + 2 * hidden_size;
  return embeddings + max_position_embeddings * hidden_size + matrices + num_hidden_layers * vectors + 2 * hidden_size;
}

std::int64_t ModelShape::matmul_parameter_count() const {
  const std::int64_t per_layer = hidden_size * (q_size() + 2 * kv_size()) + q_size() * hidden_size +
                                 hidden_size * (mlp_width() + intermediate_size);
  return vocab_size * hidden_size + num_hidden_layers * per_layer;
}

double ModelShape::train_flops_per_token(std::int64_t sequence_length) const {
  return 6.0 * static_cast<double>(matmul_parameter_count()) +
         6.0 * static_cast<double>(num_hidden_layers * q_size() * sequence_length);
}

const FieldTable<ModelShape>& model_shape_fields() {
  using M = ModelShape;
  static const auto table =
      FieldTable<M>()
          .field("architecture", &M::architecture,
                 {.help = "family of the model, as Hugging Face's model_type", .choices = {"llama", "gpt2"}})
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
          .field(
              "embedding_initializer_range", &M::embedding_initializer_range,
              {.help = "that of the embedding and the output layer; 0 takes initializer_range", .min = 0, .max = 10});
  return table;
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
  return s;
}

}  // namespace longhaul
