#include "engine/interop/peft_writer.h"

#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/model/hf_config.h"

namespace longhaul {

namespace {

// PEFT wraps a model whose weights it changes once more than one before whose texts something stands.
std::string prefix_of(const AdapterShape& adapter) {
  if (adapter.is_bottleneck()) return "";
  return adapter.is_prompt() ? "base_model." : "base_model.model.";
}

std::string peft_name(const std::string& parameter, const std::string& prefix) {
  return parameter == prompt_name ? parameter : prefix + parameter;
}

// What it is stands there as in the config.json of a model that has it.
Value bottleneck_config(const ModelShape& shape, const std::string& base_model) {
  Value config = Value::make_table();
  config.set(bottleneck_key, bottleneck_to_value(bottleneck_of(shape.adapter)));
  config.set("base_model_name_or_path", base_model);
  return config;
}

// What stands before every text; PEFT reads where it comes from, and no more.
Value prompt_config(const ModelShape& shape, const std::string& base_model) {
  Value config = Value::make_table();
  const bool prefix = shape.adapter.is_prefix();
  config.set("peft_type", prefix ? "PREFIX_TUNING" : shape.adapter.has_encoder() ? "P_TUNING" : "PROMPT_TUNING");
  config.set("task_type", shape.scalar_head ? "SEQ_CLS" : "CAUSAL_LM");
  config.set("base_model_name_or_path", base_model);
  config.set("inference_mode", true);
  config.set("num_virtual_tokens", static_cast<long long>(shape.adapter.virtual_tokens));
  config.set("token_dim", static_cast<long long>(prefix ? shape.kv_size() : shape.hidden_size));
  config.set("num_layers", static_cast<long long>(shape.num_hidden_layers));
  config.set("num_attention_heads",
             static_cast<long long>(prefix ? shape.num_key_value_heads : shape.num_attention_heads));
  config.set("num_transformer_submodules", 1);
  if (prefix) {
    config.set("encoder_hidden_size", static_cast<long long>(shape.kv_size()));
    config.set("prefix_projection", false);
    return config;
  }
  if (shape.adapter.has_encoder()) {
    config.set("encoder_reparameterization_type", "MLP");
    config.set("encoder_hidden_size",
               static_cast<long long>(shape.adapter.encoder_size > 0 ? shape.adapter.encoder_size : shape.hidden_size));
    config.set("encoder_num_layers", 2);
    config.set("encoder_dropout", 0.0);
    return config;
  }
  config.set("prompt_tuning_init", "RANDOM");
  config.set("prompt_tuning_init_text", Value());
  config.set("tokenizer_name_or_path", Value());
  return config;
}

std::string module_of(const AdaptedMatrix& m) {
  return m.matrix.name.substr(0, m.matrix.name.rfind('.'));  // without .weight or .bias
}

// Modules by their whole names: the same matrices whatever else a model has. A norm of GPT-2 has two parameters.
Value modules_of(const std::vector<AdaptedMatrix>& matrices, bool (*is_meant)(const AdaptedMatrix&)) {
  std::vector<std::string> names;
  for (const AdaptedMatrix& m : matrices)
    if (is_meant(m) && (names.empty() || names.back() != module_of(m))) names.push_back(module_of(m));
  return ValueArray(names.begin(), names.end());
}

// rank_pattern, or alpha_pattern: matrices whose number is another than the whole adapter's. By whole names, which
// every version of PEFT finds: one regular expression or, before 0.14, where none ends a longer name, the name itself.
template <class NumberOf>
Value pattern_of(const std::vector<AdaptedMatrix>& matrices, const Value& otherwise, const NumberOf& number_of) {
  Value pattern = Value::make_table();
  for (const AdaptedMatrix& m : matrices)
    if (const Value number = number_of(m); m.rank > 0 && number != otherwise) pattern.set(module_of(m), number);
  return pattern;
}

Value config_of(const ModelShape& shape, const std::vector<AdaptedMatrix>& matrices, const std::string& base_model) {
  const AdapterShape& adapter = shape.adapter;
  Value config = Value::make_table();
  config.set("peft_type", adapter.kind == "ia3" ? "IA3" : "LORA");
  config.set("task_type", shape.scalar_head ? "SEQ_CLS" : "CAUSAL_LM");
  config.set("base_model_name_or_path", base_model);
  config.set("inference_mode", true);
  config.set("target_modules", modules_of(matrices, [](const AdaptedMatrix& m) { return !m.is_saved; }));
  config.set("fan_in_fan_out", shape.is_gpt2());
  const Value saved = modules_of(matrices, [](const AdaptedMatrix& m) { return m.is_saved; });
  config.set("modules_to_save", saved.as_array().empty() ? Value() : saved);
  if (adapter.kind == "ia3") {
    config.set("feedforward_modules", modules_of(matrices, [](const AdaptedMatrix& m) { return m.of_columns; }));
    return config;
  }
  const auto rank = static_cast<long long>(adapter.rank);
  config.set("r", rank);
  config.set("lora_alpha", adapter.alpha);
  config.set("lora_dropout", adapter.dropout);
  config.set("bias", "none");
  config.set("use_rslora", adapter.rslora);
  config.set("use_dora", adapter.kind == "dora");
  config.set("rank_pattern",
             pattern_of(matrices, rank, [](const AdaptedMatrix& m) { return Value(static_cast<long long>(m.rank)); }));
  config.set("alpha_pattern",
             pattern_of(matrices, adapter.alpha, [](const AdaptedMatrix& m) { return Value(m.alpha); }));
  return config;
}

// A factor of rows stands as [out, 1], one of columns as [1, in].
std::vector<std::int64_t> stored_shape(const AdaptedMatrix& matrix, const ParameterSpec& own, bool ia3) {
  if (!ia3 || matrix.is_saved) return own.shape;
  return matrix.of_columns ? std::vector<std::int64_t>{1, own.shape[0]} : std::vector<std::int64_t>{own.shape[0], 1};
}

}  // namespace

Result<PeftWriter> PeftWriter::create(const std::string& folder, const ModelShape& shape,
                                      const std::string& base_model) {
  LH_TRY(const std::vector<AdaptedMatrix> matrices, adapted_matrices(shape));
  std::vector<SafetensorInfo> tensors;
  if (shape.adapter.is_prompt()) {
    SafetensorInfo& info = tensors.emplace_back();
    const ModelShape model = frozen_shape(shape);
    const std::int64_t width = model.virtual_keys ? 2 * model.num_hidden_layers * model.kv_size() : model.hidden_size;
    info.name = prompt_name, info.shape = {model.virtual_tokens, width};
  }
  const std::string prefix = prefix_of(shape.adapter);
  for (const AdaptedMatrix& matrix : matrices)
    for (const ParameterSpec& own : matrix.own) {
      if (shape.adapter.is_prompt() && own.name != scalar_head_name) continue;
      SafetensorInfo info;
      info.name = peft_name(own.name, prefix), info.shape = stored_shape(matrix, own, shape.adapter.kind == "ia3");
      tensors.push_back(std::move(info));
    }
  LH_CHECK(make_directories(folder));
  LH_TRY(SafetensorsWriter file, SafetensorsWriter::create(join_path(folder, "adapter_model.safetensors"),
                                                           std::move(tensors), {{"format", "pt"}}));
  const Value config = shape.adapter.is_bottleneck() ? bottleneck_config(shape, base_model)
                       : shape.adapter.is_prompt()   ? prompt_config(shape, base_model)
                                                     : config_of(shape, matrices, base_model);
  return PeftWriter(folder, to_json_pretty(config) + "\n", prefix, std::move(file));
}

Status PeftWriter::add(const std::string& name, std::span<const float> values) {
  const auto bytes = std::as_bytes(values);
  return file_.write(peft_name(name, prefix_), {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

Status PeftWriter::finish() {
  LH_CHECK(file_.finish());
  return write_file_atomic(join_path(folder_, "adapter_config.json"), config_);
}

}  // namespace longhaul
