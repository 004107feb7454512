#include "engine/interop/hf_config.h"

#include "base/diagnostics.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"

namespace longhaul {
namespace {

class ConfigReader {
 public:
  ConfigReader(const Value& config, std::string name) : config_(config), name_(std::move(name)) {}

  Result<HfConfig> read() {
    const std::string type = config_.get_string("model_type", "(none)");
    if (type == "gpt2") return read_gpt2();
    refuse_other_models(type);
    HfConfig made;
    ModelShape& shape = made.shape;
    shape.vocab_size = required("vocab_size");
    shape.hidden_size = required("hidden_size");
    shape.intermediate_size = required("intermediate_size");
    shape.num_hidden_layers = required("num_hidden_layers");
    shape.num_attention_heads = required("num_attention_heads");
    // Defaults where a key is absent or null: those of LlamaConfig.
    shape.num_key_value_heads = whole(config_, "num_key_value_heads", shape.num_attention_heads, 1);
    shape.head_dim = whole(config_, "head_dim", 0, 1);
    shape.max_position_embeddings = whole(config_, "max_position_embeddings", 2048, 1);
    shape.rms_norm_eps = number(config_, "rms_norm_eps", 1e-6);
    shape.initializer_range = number(config_, "initializer_range", 0.02);
    shape.tie_word_embeddings = config_.get_bool("tie_word_embeddings", false);
    read_rope(shape);
    return finish(std::move(made));
  }

 private:
  Result<HfConfig> finish(HfConfig made) {
    read_tokens(made);
    made.dtype = config_.get_string("dtype", config_.get_string("torch_dtype", "float32"));
    LH_CHECK(problems_.to_status("the model cannot be used"));
    LH_TRY(made.shape, resolve_shape(made.shape).with_context(name_));
    return made;
  }

  // Defaults where a key is absent or null: those of GPT2Config.
  Result<HfConfig> read_gpt2() {
    HfConfig made;
    ModelShape& shape = made.shape;
    shape.architecture = "gpt2";
    shape.vocab_size = whole(config_, "vocab_size", 50257, 1);
    shape.hidden_size = whole(config_, "n_embd", 768, 1);
    shape.intermediate_size = whole(config_, "n_inner", 0, 1);
    shape.num_hidden_layers = whole(config_, "n_layer", 12, 1);
    shape.num_attention_heads = whole(config_, "n_head", 12, 1);
    shape.max_position_embeddings = whole(config_, "n_positions", 1024, 1);
    shape.rms_norm_eps = number(config_, "layer_norm_epsilon", 1e-5);
    shape.initializer_range = number(config_, "initializer_range", 0.02);
    shape.tie_word_embeddings = config_.get_bool("tie_word_embeddings", true);
    const std::string activation = config_.get_string("activation_function", "gelu_new");
    if (activation != "gelu_new" && activation != "gelu_pytorch_tanh")
      wrong(format("activation_function '{}' is not supported", activation), "only gelu_new is");
    for (const char* key : {"scale_attn_by_inverse_layer_idx", "add_cross_attention"})
      if (config_.get_bool(key)) wrong(format("{} = true is not supported", key));
    if (!config_.get_bool("scale_attn_weights", true)) wrong("scale_attn_weights = false is not supported");
    if (present(config_, "quantization_config"))
      wrong("quantization_config of a gpt2 model is not supported", "use the weights that it was made from");
    return finish(std::move(made));
  }

  void wrong(std::string what, std::string hint = {}) {
    problems_.add(SourcePos{name_, 0, 0}, std::move(what), std::move(hint));
  }
  static const Value* present(const Value& table, std::string_view key) {
    const Value* value = table.find(key);
    return value && !value->is_null() ? value : nullptr;
  }
  std::int64_t whole(const Value& table, std::string_view key, std::int64_t otherwise, std::int64_t min) {
    const Value* value = present(table, key);
    if (!value) return otherwise;
    constexpr std::int64_t max = std::int64_t{1} << 40;
    if (value->is_integer() && value->as_integer() >= min && value->as_integer() <= max) return value->as_integer();
    wrong(format("{} is not a whole number of at least {}", key, min));
    return min;
  }
  std::int64_t required(std::string_view key) {
    if (!present(config_, key)) wrong(format("{} is missing", key));
    return whole(config_, key, 1, 1);
  }
  double number(const Value& table, std::string_view key, double otherwise) {
    const Value* value = present(table, key);
    if (!value) return otherwise;
    if (value->is_number() && value->as_number() >= 0) return value->as_number();
    wrong(format("{} is not a number of at least 0", key));
    return otherwise;
  }

  void refuse_other_models(const std::string& type) {
    if (type != "llama") wrong(format("model_type '{}' is not supported", type), "llama and gpt2 are");
    const std::string activation = config_.get_string("hidden_act", "silu");
    if (activation != "silu") wrong(format("hidden_act '{}' is not supported", activation), "only silu is");
    for (const char* key : {"attention_bias", "mlp_bias"})
      if (config_.get_bool(key)) wrong(format("{} = true is not supported", key));
    if (const Value* quantization = present(config_, "quantization_config");
        quantization && !is_int8_per_channel(*quantization))
      wrong(
          "quantization_config is of a kind that is not read",
          "the only one is compressed-tensors, int-quantized: 8 bits, symmetric, one scale per channel, weights only");
  }

  // As engine/quantize/int8.h writes it.
  static bool is_int8_per_channel(const Value& quantization) {
    const Value* groups = quantization.find("config_groups");
    if (quantization.get_string("quant_method") != "compressed-tensors" ||
        quantization.get_string("format") != "int-quantized" || groups == nullptr || !groups->is_table())
      return false;
    for (const ValueMember& group : groups->as_table()) {
      const Value* weights = group.value.find("weights");
      const Value* activations = group.value.find("input_activations");
      if (weights == nullptr || (activations != nullptr && !activations->is_null())) return false;
      if (weights->get_integer("num_bits") != 8 || weights->get_string("type") != "int" ||
          !weights->get_bool("symmetric") || weights->get_string("strategy") != "channel")
        return false;
    }
    return true;
  }

  void read_rope(ModelShape& shape) {
    const Value* parameters = present(config_, "rope_parameters");
    const Value* scaling = parameters ? parameters : present(config_, "rope_scaling");
    shape.rope_theta = number(config_, "rope_theta", 10000);
    if (!scaling) return;
    if (!scaling->is_table()) return wrong("rope_parameters or rope_scaling is not an object");
    if (parameters) shape.rope_theta = number(*parameters, "rope_theta", shape.rope_theta);
    shape.rope_type = scaling->get_string("rope_type", scaling->get_string("type", "default"));
    if (shape.rope_type != "default" && shape.rope_type != "linear" && shape.rope_type != "llama3")
      return wrong(format("rope type '{}' is not supported", shape.rope_type), "default, linear and llama3 are");
    if (shape.rope_type == "default") return;
    if (!present(*scaling, "factor")) wrong("the rope scaling has no factor");
    shape.rope_factor = number(*scaling, "factor", 1);
    if (shape.rope_type != "llama3") return;
    for (const char* key : {"low_freq_factor", "high_freq_factor", "original_max_position_embeddings"})
      if (!present(*scaling, key)) wrong(format("the llama3 rope scaling has no {}", key));
    shape.rope_low_freq_factor = number(*scaling, "low_freq_factor", 1);
    shape.rope_high_freq_factor = number(*scaling, "high_freq_factor", 4);
    shape.rope_original_max_position_embeddings = whole(*scaling, "original_max_position_embeddings", 8192, 1);
  }

  void read_tokens(HfConfig& made) {
    made.bos_token_id = whole(config_, "bos_token_id", -1, 0);
    made.pad_token_id = whole(config_, "pad_token_id", -1, -1);
    const Value* eos = present(config_, "eos_token_id");
    if (!eos) return;
    const ValueArray one = {*eos};
    for (const Value& id : eos->is_array() ? eos->as_array() : one) {
      if (!id.is_integer() || id.as_integer() < 0) return wrong("eos_token_id is not a token id or a list of them");
      made.eos_token_ids.push_back(id.as_integer());
    }
  }

  const Value& config_;
  std::string name_;
  Diagnostics problems_;
};

Value rope_value(const ModelShape& shape, bool with_theta) {
  Value rope = Value::make_table();
  rope.set("rope_type", shape.rope_type);
  if (with_theta) rope.set("rope_theta", shape.rope_theta);
  if (shape.rope_type != "default") rope.set("factor", shape.rope_factor);
  if (shape.rope_type == "llama3") {
    rope.set("low_freq_factor", shape.rope_low_freq_factor);
    rope.set("high_freq_factor", shape.rope_high_freq_factor);
    rope.set("original_max_position_embeddings", shape.rope_original_max_position_embeddings);
  }
  return rope;
}

void set_tokens(Value& made, const HfConfig& config) {
  if (config.bos_token_id >= 0) made.set("bos_token_id", config.bos_token_id);
  if (config.eos_token_ids.size() == 1) made.set("eos_token_id", config.eos_token_ids[0]);
  if (config.eos_token_ids.size() > 1)
    made.set("eos_token_id", ValueArray(config.eos_token_ids.begin(), config.eos_token_ids.end()));
  if (config.pad_token_id >= 0) made.set("pad_token_id", config.pad_token_id);
  made.set("torch_dtype", config.dtype);
  made.set("dtype", config.dtype);
}

void set_gpt2(Value& made, const ModelShape& shape) {
  made.set("architectures", ValueArray{Value("GPT2LMHeadModel")});
  made.set("model_type", "gpt2");
  made.set("vocab_size", shape.vocab_size);
  made.set("n_embd", shape.hidden_size);
  made.set("n_inner", shape.intermediate_size);
  made.set("n_layer", shape.num_hidden_layers);
  made.set("n_head", shape.num_attention_heads);
  made.set("n_positions", shape.max_position_embeddings);
  made.set("n_ctx", shape.max_position_embeddings);
  made.set("activation_function", "gelu_new");
  made.set("layer_norm_epsilon", shape.rms_norm_eps);
  made.set("initializer_range", shape.initializer_range);
  made.set("tie_word_embeddings", shape.tie_word_embeddings);
  for (const char* key : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) made.set(key, 0.0);
}

}  // namespace

Result<HfConfig> read_hf_config(const Value& config, const std::string& name) {
  if (!config.is_table()) return make_error(ErrorCode::corrupt, name + ": is not a JSON object");
  return ConfigReader(config, name).read();
}

Result<HfConfig> load_hf_config(const std::string& path) {
  LH_TRY(const std::string text, read_file(path, 1 << 24));
  LH_TRY(const Value config, parse_json(text, path));
  return read_hf_config(config, path);
}

Value write_hf_config(const HfConfig& config) {
  const ModelShape& shape = config.shape;
  Value made = Value::make_table();
  if (shape.is_gpt2()) {
    set_gpt2(made, shape);
    set_tokens(made, config);
    return made;
  }
  made.set("architectures", ValueArray{Value("LlamaForCausalLM")});
  made.set("model_type", "llama");
  made.set("vocab_size", shape.vocab_size);
  made.set("hidden_size", shape.hidden_size);
  made.set("intermediate_size", shape.intermediate_size);
  made.set("num_hidden_layers", shape.num_hidden_layers);
  made.set("num_attention_heads", shape.num_attention_heads);
  made.set("num_key_value_heads", shape.num_key_value_heads);
  made.set("head_dim", shape.head_dim);
  made.set("hidden_act", "silu");
  made.set("max_position_embeddings", shape.max_position_embeddings);
  made.set("initializer_range", shape.initializer_range);
  made.set("rms_norm_eps", shape.rms_norm_eps);
  made.set("tie_word_embeddings", shape.tie_word_embeddings);
  made.set("attention_bias", false);
  made.set("mlp_bias", false);
  made.set("rope_theta", shape.rope_theta);
  made.set("rope_scaling", shape.rope_type == "default" ? Value() : rope_value(shape, false));
  made.set("rope_parameters", rope_value(shape, true));
  set_tokens(made, config);
  return made;
}

}  // namespace longhaul
