#include "contracts/model/hf_config.h"

#include "base/error/diagnostics.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"

namespace longhaul {
namespace {

// Models with experts. What only Longhaul computes has a name that others refuse: under Mixtral's they would compute
// something else.
constexpr const char *kMixtral = "mixtral", *kOwnMixtral = "longhaul_mixtral";
// What Hugging Face calls a Llama whose attention has a sliding window.
constexpr const char* kMistral = "mistral";
// How the classes of reward models end.
constexpr const char* classifier_class = "ForSequenceClassification";

class ConfigReader {
 public:
  ConfigReader(const Value& config, std::string name) : config_(config), name_(std::move(name)) {}

  Result<HfConfig> read() {
    const std::string type = config_.get_string("model_type", "(none)");
    if (type == "gpt2") return read_gpt2();
    refuse_other_models(type);
    HfConfig made;
    ModelShape& shape = made.shape;
    const bool mixtral = type == kMixtral || type == kOwnMixtral, mistral = type == kMistral;
    if (mixtral) read_experts(shape, type);
    shape.vocab_size = required("vocab_size");
    shape.hidden_size = required("hidden_size");
    shape.intermediate_size = required("intermediate_size");
    shape.num_hidden_layers = required("num_hidden_layers");
    shape.num_attention_heads = required("num_attention_heads");
    // Defaults where a key is absent or null: those of LlamaConfig, MistralConfig and MixtralConfig. MistralConfig
    // takes a window where the key is absent, and none where it is null.
    const bool of_mistral = mixtral || mistral;
    shape.num_key_value_heads = whole(config_, "num_key_value_heads", of_mistral ? 8 : shape.num_attention_heads, 1);
    if (of_mistral)
      shape.sliding_window = whole(config_, "sliding_window", mistral && !config_.find("sliding_window") ? 4096 : 0, 1);
    shape.head_dim = whole(config_, "head_dim", 0, 1);
    shape.max_position_embeddings = whole(config_, "max_position_embeddings", of_mistral ? 131072 : 2048, 1);
    shape.rms_norm_eps = number(config_, "rms_norm_eps", mixtral ? 1e-5 : 1e-6);
    shape.initializer_range = number(config_, "initializer_range", 0.02);
    shape.tie_word_embeddings = config_.get_bool("tie_word_embeddings", false);
    read_rope(shape, mixtral ? 1e6 : 10000);
    return finish(std::move(made));
  }

 private:
  Result<HfConfig> finish(HfConfig made) {
    read_tokens(made);
    read_head(made.shape);
    made.shape.virtual_tokens = whole(config_, virtual_tokens_key, 0, 1);
    made.shape.virtual_keys = made.shape.virtual_tokens > 0 && config_.get_bool(virtual_keys_key, false);
    if (made.shape.virtual_keys && made.shape.is_moe())
      wrong(format("{} of a mixture of experts is not supported", virtual_keys_key));
    if (made.shape.virtual_tokens > 0 && made.shape.text_length_max() < 1)
      wrong(format("{} = {} leaves no room for a text: the model has {} positions", virtual_tokens_key,
                   made.shape.virtual_tokens, made.shape.max_position_embeddings));
    read_bottleneck(made.shape);
    if (const Value* form = made.shape.scalar_head ? config_.find(reward_form_key) : nullptr) made.reward_form = *form;
    made.dtype = config_.get_string("dtype", config_.get_string("torch_dtype", "float32"));
    LH_CHECK(problems_.to_status("the model cannot be used"));
    LH_TRY(made.shape, resolve_shape(made.shape).with_context(name_));
    return made;
  }

  void read_bottleneck(ModelShape& shape) {
    const Value* said = present(config_, bottleneck_key);
    if (!said) return;
    AdapterShape adapter;
    adapter.kind = "bottleneck";
    const Value* size = said->is_table() ? said->find("size") : nullptr;
    const Value* after = said->is_table() ? said->find("after") : nullptr;
    adapter.bottleneck_size = size && size->is_integer() ? size->as_integer() : 0;
    adapter.bottleneck_after.clear();
    if (after && after->is_array())
      for (const Value& name : after->as_array())
        adapter.bottleneck_after.push_back(name.is_string() ? name.as_string() : "");
    if (adapter.bottleneck_size < 1 || adapter.bottleneck_size > bottleneck_size_max || !check_adapter(adapter).ok())
      return wrong(format("{}: size has to be from 1 to {}, and after \"attention\", \"feed_forward\" or both",
                          bottleneck_key, bottleneck_size_max));
    shape.bottleneck = bottleneck_of(adapter);
    if (shape.is_moe()) wrong(format("{} of a mixture of experts is not supported", bottleneck_key));
  }

  // Labels as transformers counts them: two where nothing is said.
  void read_head(ModelShape& shape) {
    const Value* classes = present(config_, "architectures");
    bool is_classifier = false;
    if (classes && classes->is_array())
      for (const Value& name : classes->as_array())
        is_classifier |= name.is_string() && ends_with(name.as_string(), classifier_class);
    if (!is_classifier) return;
    const Value* names = present(config_, "id2label");
    const std::int64_t labels = names && names->is_table() ? static_cast<std::int64_t>(names->as_table().size())
                                                           : whole(config_, "num_labels", 2, 1);
    if (labels != 1 && !config_.find(reward_form_key))
      wrong(format("a classifier with {} labels is not supported", labels),
            "a reward model has one: num_labels = 1; or it is one of attributes that a stage of the kind reward made");
    shape = with_scalar_head(shape, labels);
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

  void read_experts(ModelShape& shape, const std::string& type) {
    shape.architecture = "mixtral";
    shape.num_local_experts = whole(config_, "num_local_experts", 8, 1);
    shape.num_experts_per_tok = whole(config_, "num_experts_per_tok", 2, 1);
    if (number(config_, "router_jitter_noise", 0) > 0) wrong("router_jitter_noise above 0 is not supported");
    if (present(config_, "quantization_config")) wrong("quantization_config of a mixtral model is not supported");
    if (type == kMixtral) return;
    shape.n_shared_experts = whole(config_, "n_shared_experts", 0, 0);
    shape.router_score = config_.get_string("router_score", shape.router_score);
    if (shape.router_score != "softmax" && shape.router_score != "softmax_all" && shape.router_score != "sigmoid")
      wrong(format("router_score '{}' is not supported", shape.router_score), "softmax, softmax_all and sigmoid are");
    shape.router_bias = config_.get_bool("router_bias");
    shape.routed_scaling_factor = number(config_, "routed_scaling_factor", 1);
    shape.n_group = whole(config_, "n_group", 1, 1);
    shape.topk_group = whole(config_, "topk_group", 1, 1);
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
    if (type != "llama" && type != kMistral && type != kMixtral && type != kOwnMixtral)
      wrong(format("model_type '{}' is not supported", type), "llama, mistral, mixtral and gpt2 are");
    const std::string activation = config_.get_string("hidden_act", "silu");
    if (activation != "silu") wrong(format("hidden_act '{}' is not supported", activation), "only silu is");
    for (const char* key : {"attention_bias", "mlp_bias"})
      if (config_.get_bool(key)) wrong(format("{} = true is not supported", key));
    if (const Value* quantization = present(config_, "quantization_config");
        quantization && !is_readable(*quantization))
      wrong("quantization_config is of a kind that is not read",
            "of compressed-tensors, symmetric, weights only: int-quantized of 8 bits or float-quantized, one scale per "
            "channel; pack-quantized of 4 bits in groups of 128, 64 or 32");
  }

  // As engine/quantize/weight_format.h writes them.
  static bool is_readable(const Value& quantization) {
    const Value* groups = quantization.find("config_groups");
    if (quantization.get_string("quant_method") != "compressed-tensors" || groups == nullptr || !groups->is_table())
      return false;
    for (const ValueMember& group : groups->as_table()) {
      const Value* weights = group.value.find("weights");
      const Value* activations = group.value.find("input_activations");
      if (weights == nullptr || (activations != nullptr && !activations->is_null())) return false;
      if (!weights->get_bool("symmetric") || !is_readable(quantization.get_string("format"), *weights)) return false;
    }
    return true;
  }
  static bool is_readable(const std::string& format, const Value& weights) {
    const auto is = [&](int bits, const char* type, const char* strategy) {
      return weights.get_integer("num_bits") == bits && weights.get_string("type") == type &&
             weights.get_string("strategy") == strategy;
    };
    if (format == "int-quantized") return is(8, "int", "channel");
    if (format == "float-quantized") return is(8, "float", "channel");
    const std::int64_t group = weights.get_integer("group_size");
    return format == "pack-quantized" && is(4, "int", "group") && (group == 128 || group == 64 || group == 32) &&
           !present(weights, "actorder");
  }

  void read_rope(ModelShape& shape, double theta) {
    const Value* parameters = present(config_, "rope_parameters");
    const Value* scaling = parameters ? parameters : present(config_, "rope_scaling");
    shape.rope_theta = number(config_, "rope_theta", theta);
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

Value window_value(const ModelShape& shape) {
  return shape.sliding_window > 0 ? Value(shape.sliding_window) : Value();
}

void set_class(Value& made, const ModelShape& shape, const std::string& family, const char* language_model) {
  made.set("architectures", ValueArray{Value(family + (shape.scalar_head ? classifier_class : language_model))});
  if (!shape.scalar_head) return;
  Value names = Value::make_table(), numbers = Value::make_table();
  for (std::int64_t i = 0; i < shape.num_labels; ++i) {
    const std::string name = format("LABEL_{}", i);
    names.set(std::to_string(i), name), numbers.set(name, i);
  }
  made.set("id2label", std::move(names)), made.set("label2id", std::move(numbers));
}

void set_experts(Value& made, const ModelShape& shape) {
  const bool plain = shape.is_plain_mixtral();
  set_class(made, shape, plain ? "Mixtral" : "LonghaulMixtral", "ForCausalLM");
  made.set("model_type", plain ? kMixtral : kOwnMixtral);
  made.set("num_local_experts", shape.num_local_experts);
  made.set("num_experts_per_tok", shape.num_experts_per_tok);
  made.set("sliding_window", window_value(shape));
  if (plain) return;
  made.set("n_shared_experts", shape.n_shared_experts);
  made.set("router_score", shape.router_score);
  made.set("router_bias", shape.router_bias);
  made.set("routed_scaling_factor", shape.routed_scaling_factor);
  made.set("n_group", shape.n_group);
  made.set("topk_group", shape.topk_group);
}

void set_gpt2(Value& made, const ModelShape& shape) {
  set_class(made, shape, "GPT2", "LMHeadModel");
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

Value written_config(const HfConfig& config) {
  const ModelShape& shape = config.shape;
  Value made = Value::make_table();
  if (shape.is_gpt2()) {
    set_gpt2(made, shape);
    set_tokens(made, config);
    return made;
  }
  const bool mistral = shape.sliding_window > 0;
  set_class(made, shape, mistral ? "Mistral" : "Llama", "ForCausalLM");
  made.set("model_type", mistral ? kMistral : "llama");
  if (mistral) made.set("sliding_window", window_value(shape));
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
  if (shape.is_moe()) set_experts(made, shape);
  set_tokens(made, config);
  return made;
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

Value bottleneck_to_value(const BottleneckShape& bottleneck) {
  const std::vector<std::string> after = bottleneck.after();
  Value made = Value::make_table();
  made.set("size", bottleneck.size);
  made.set("after", ValueArray(after.begin(), after.end()));
  return made;
}

Value write_hf_config(const HfConfig& config) {
  Value made = written_config(config);
  if (config.shape.scalar_head && !config.reward_form.is_null()) made.set(reward_form_key, config.reward_form);
  if (config.shape.virtual_tokens > 0) made.set(virtual_tokens_key, config.shape.virtual_tokens);
  if (config.shape.virtual_keys) made.set(virtual_keys_key, true);
  if (config.shape.bottleneck.size > 0) made.set(bottleneck_key, bottleneck_to_value(config.shape.bottleneck));
  return made;
}

}  // namespace longhaul
