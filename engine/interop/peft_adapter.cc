#include "engine/interop/peft_adapter.h"

#include <algorithm>
#include <cmath>

#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/model/hf_config.h"

namespace longhaul {

namespace {

constexpr const char* peft_prefix = "base_model.model.";

// Keys of the configuration that say nothing of how weights are merged, or are read below.
constexpr const char* peft_keys[] = {"alpha_pattern",
                                     "auto_mapping",
                                     "base_model_name_or_path",
                                     "bias",
                                     "exclude_modules",
                                     "fan_in_fan_out",
                                     "feedforward_modules",
                                     "inference_mode",
                                     "init_ia3_weights",
                                     "init_lora_weights",
                                     "layers_pattern",
                                     "layers_to_transform",
                                     "loftq_config",
                                     "lora_alpha",
                                     "lora_dropout",
                                     "megatron_config",
                                     "megatron_core",
                                     "modules_to_save",
                                     "peft_type",
                                     "peft_version",
                                     "qalora_group_size",
                                     "r",
                                     "rank_pattern",
                                     "revision",
                                     "target_modules",
                                     "task_type",
                                     "use_dora",
                                     "use_rslora",
                                     "eva_config",
                                     "corda_config",
                                     "lora_ga_config",
                                     "runtime_config"};

// The same of what stands before a text.
constexpr const char* prompt_keys[] = {"auto_mapping",
                                       "base_model_name_or_path",
                                       "encoder_dropout",
                                       "encoder_hidden_size",
                                       "encoder_num_layers",
                                       "encoder_reparameterization_type",
                                       "inference_mode",
                                       "num_attention_heads",
                                       "num_layers",
                                       "num_transformer_submodules",
                                       "num_virtual_tokens",
                                       "peft_type",
                                       "peft_version",
                                       "prefix_projection",
                                       "prompt_tuning_init",
                                       "prompt_tuning_init_text",
                                       "revision",
                                       "task_type",
                                       "token_dim",
                                       "tokenizer_kwargs",
                                       "tokenizer_name_or_path"};

bool is_absent(const Value& value) {
  return value.is_null() || (value.is_bool() && !value.as_bool()) ||
         ((value.is_array() || value.is_table() || value.is_string()) && value.size() == 0 &&
          !(value.is_string() && !value.as_string().empty()));
}

Error refused_key(const std::string& path, const std::string& key, const std::string& why, const std::string& hint) {
  return make_error(ErrorCode::unsupported, format("{}: {} {}", path, key, why), hint);
}

std::string shape_of(const SafetensorView& tensor) {
  std::string text = "[";
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(tensor.shape[i]);
  return text + "]";
}

}  // namespace

namespace {

Result<Value> read_peft_config(const std::string& path) {
  LH_TRY(const std::string text, read_file(path));
  LH_TRY(Value config, parse_json(text, path));
  if (!config.is_table()) return make_error(ErrorCode::invalid_input, path + " is no JSON object");
  if (config.find(bottleneck_key) != nullptr)
    return make_error(ErrorCode::unsupported,
                      path + " is of a bottleneck, whose layers no weights can take the place of",
                      "take the model beside it, which has them: evaluate, sample and deploy read it");
  return config;
}

// Its weights, where they are in a file that may be read.
Result<SafetensorsFile> open_peft_file(const std::string& folder) {
  const std::string weights = join_path(folder, "adapter_model.safetensors");
  if (!file_exists(join_path(folder, "adapter_config.json")))
    return make_error(ErrorCode::not_found, folder + " is no adapter: it has no adapter_config.json",
                      "name the folder that PEFT's save_pretrained wrote");
  if (!file_exists(weights) && file_exists(join_path(folder, "adapter_model.bin")))
    return make_error(ErrorCode::unsupported, folder + " has adapter_model.bin, a pickle, which may run programs",
                      "write it again with save_pretrained(folder, safe_serialization=True)");
  return SafetensorsFile::open(weights);
}

}  // namespace

Result<std::optional<PeftPrompt>> read_peft_prompt(const std::string& folder) {
  LH_TRY(const SafetensorsFile file, open_peft_file(folder));
  const std::string path = join_path(folder, "adapter_config.json");
  LH_TRY(const Value config, read_peft_config(path));
  const std::string type = config.get_string("peft_type");
  const bool of_layers = type == "PREFIX_TUNING";
  if (type != "PROMPT_TUNING" && type != "P_TUNING" && !of_layers) return std::optional<PeftPrompt>();
  for (const ValueMember& member : config.as_table())
    if (std::ranges::find(prompt_keys, member.key) == std::end(prompt_keys) && !is_absent(member.value))
      return refused_key(path, member.key, "is not known: what it changes would be missing",
                         "tune it again with a PEFT that writes fewer keys");
  if (config.get_string("task_type") == "SEQ_CLS")
    return refused_key(path, "task_type", "= \"SEQ_CLS\": it is of a classifier, whose output layer it brings",
                       "take the model that its stage left, or write it with task_type = \"CAUSAL_LM\"");
  LH_TRY(const SafetensorView tensor, file.find("prompt_embeddings"));
  if (file.tensors().size() != 1 || tensor.shape.size() != 2 ||
      tensor.shape[0] != config.get_integer("num_virtual_tokens"))
    return make_error(ErrorCode::invalid_input,
                      format("{}: of {} virtual tokens prompt_embeddings is {}, in a file of {} tensors", folder,
                             config.get_integer("num_virtual_tokens"), shape_of(tensor), file.tensors().size()),
                      "copy the whole folder again");
  PeftPrompt prompt{tensor.shape[0], tensor.shape[1], {}, of_layers};
  prompt.values.resize(static_cast<std::size_t>(tensor.elements()));
  LH_CHECK(convert_to_f32(tensor, prompt.values));
  return std::optional(std::move(prompt));
}

Result<PeftAdapter> PeftAdapter::open(const std::string& folder) {
  LH_TRY(SafetensorsFile file, open_peft_file(folder));
  PeftAdapter adapter(folder, std::move(file));
  LH_CHECK(adapter.read_config());
  LH_CHECK(adapter.read_names());
  return adapter;
}

Status PeftAdapter::read_config() {
  const std::string path = join_path(folder_, "adapter_config.json");
  LH_TRY(const Value config, read_peft_config(path));
  const std::string type = config.get_string("peft_type");
  if (type != "LORA" && type != "IA3")
    return refused_key(path, "peft_type", format("= \"{}\" is no change of weights", type),
                       "LORA (with use_rslora or use_dora) and IA3 are merged; PROMPT_TUNING, P_TUNING and "
                       "PREFIX_TUNING stand before every text");
  for (const ValueMember& member : config.as_table())
    if (std::ranges::find(peft_keys, member.key) == std::end(peft_keys) && !is_absent(member.value))
      return refused_key(path, member.key, "is not known: what it changes would be missing",
                         "merge it with PEFT's merge_and_unload, and take that model");
  const std::string init = config.get_string("init_lora_weights");
  for (const char* changes_base : {"pissa", "olora", "corda", "loftq"})
    if (starts_with(init, changes_base))
      return refused_key(path, "init_lora_weights", format("= \"{}\": it belongs to changed weights of its base", init),
                         "save it with path_initial_model_for_weight_conversion, or merge it with PEFT");
  base_ = config.get_string("base_model_name_or_path"), bias_ = config.get_string("bias", "none");
  rslora_ = config.get_bool("use_rslora"), dora_ = config.get_bool("use_dora");
  alpha_ = config.get_number("lora_alpha", NAN);
  if (type == "LORA" && !std::isfinite(alpha_))
    return make_error(ErrorCode::invalid_input, path + " has no lora_alpha", "copy the whole folder again");
  if (const Value* pattern = config.find("alpha_pattern"); pattern && pattern->is_table())
    for (const ValueMember& member : pattern->as_table()) {
      if (member.key.find_first_of("^$*+?()[]{}|\\") != std::string::npos)
        return refused_key(path, "alpha_pattern", format("has \"{}\", a regular expression", member.key),
                           "names of modules are understood, or their last parts");
      if (!member.value.is_number())
        return make_error(ErrorCode::invalid_input, format("{}: alpha_pattern of {} is no number", path, member.key));
      alphas_.emplace_back(member.key, member.value.as_number());
    }
  return {};
}

Status PeftAdapter::read_names() {
  struct Kind {
    const char* ending;
    const char* tensor;  // of the model: the module's name and this
    std::optional<SafetensorView> Change::* member;
  };
  static constexpr Kind kinds[] = {{".lora_A.weight", ".weight", &Change::a},
                                   {".lora_B.weight", ".weight", &Change::b},
                                   {".lora_magnitude_vector", ".weight", &Change::magnitude},
                                   {".lora_magnitude_vector.weight", ".weight", &Change::magnitude},
                                   {".lora_embedding_A", ".weight", &Change::embedding_a},
                                   {".lora_embedding_B", ".weight", &Change::embedding_b},
                                   {".ia3_l", ".weight", &Change::scale},
                                   {".base_layer.weight", ".weight", &Change::replacement},
                                   {".base_layer.bias", ".bias", &Change::replacement},
                                   {".weight", ".weight", &Change::replacement},
                                   {".bias", ".bias", &Change::replacement}};
  for (const auto& [name, tensor] : file_.tensors()) {
    const auto kind = std::ranges::find_if(kinds, [&](const Kind& one) { return ends_with(name, one.ending); });
    if (!starts_with(name, peft_prefix) || kind == std::end(kinds) || name.find(".lora_B.bias") != std::string::npos)
      return make_error(ErrorCode::unsupported, format("{}: nobody here knows the tensor {}", file_.path(), name),
                        "merge it with PEFT's merge_and_unload, and take that model");
    const std::size_t begin = std::string(peft_prefix).size();
    const std::string module = name.substr(begin, name.size() - begin - std::string(kind->ending).size());
    changes_[module + kind->tensor].*kind->member = tensor;
  }
  return {};
}

std::string PeftAdapter::problem_of(const std::string& name, const Change& change, const PeftTarget& target) const {
  using Shape = std::vector<std::int64_t>;
  const Shape& shape = target.shape;
  const bool matrix = shape.size() == 2;
  const auto differs = [&](const std::optional<SafetensorView>& tensor, const char* what, const Shape& expected) {
    if (!tensor || tensor->shape == expected) return std::string();
    return format("{} of {} is {}, which does not go with a weight of [{}{}]", what, name, shape_of(*tensor), shape[0],
                  matrix ? format(", {}", shape[1]) : "");
  };
  if (target.is_tied) return name + " is the output as well (tied), which an adapter would part";
  if (change.a.has_value() != change.b.has_value() || change.embedding_a.has_value() != change.embedding_b.has_value())
    return "one of the two factors of " + name + " is missing";
  if (dora_ != change.magnitude.has_value() && change.a)
    return name + " is with use_dora without its magnitudes, or has them without";
  if ((change.a || change.scale || change.embedding_a) && !matrix) return name + " is no matrix";
  if ((change.a && target.is_embedding) || (change.embedding_a && !target.is_embedding) ||
      (change.embedding_a && change.magnitude))
    return name + " is changed in a way that is not of its kind";
  if (change.replacement && !target.is_stored_so) return name + " is replaced, in a form that is not read here";
  const auto rank_of = [](const std::optional<SafetensorView>& a) {
    return a && a->shape.size() == 2 ? a->shape[0] : 0;
  };
  const std::int64_t rank = rank_of(change.a), table_rank = rank_of(change.embedding_a);
  std::string problem = differs(change.replacement, "the value", shape);
  if (problem.empty() && change.a) problem = differs(change.a, "A", {rank, shape[1]});
  if (problem.empty() && change.b) problem = differs(change.b, "B", {shape[0], rank});
  if (problem.empty()) problem = differs(change.magnitude, "the magnitudes", {shape[0]});
  if (problem.empty() && change.embedding_a) problem = differs(change.embedding_a, "A", {table_rank, shape[0]});
  if (problem.empty() && change.embedding_b) problem = differs(change.embedding_b, "B", {shape[1], table_rank});
  if (problem.empty() && change.scale && change.scale->shape != Shape{shape[0], 1})
    problem = differs(change.scale, "the scale", {1, shape[1]});
  return problem;
}

Status PeftAdapter::check(std::span<const PeftTarget> model) const {
  std::map<std::string, const PeftTarget*> targets;
  for (const PeftTarget& target : model) targets[target.name] = &target;
  std::vector<std::string> problems;
  for (const auto& [name, change] : changes_) {
    const auto target = targets.find(name);
    const std::string problem =
        target == targets.end() ? "the model has no " + name : problem_of(name, change, *target->second);
    if (!problem.empty()) problems.push_back(problem);
    // PEFT 0.13 leaves them out of the file.
    std::string bias = name.substr(0, name.rfind('.')) + ".bias";
    if (bias_ == "lora_only" && change.a && targets.contains(bias) && !changes_.contains(bias))
      problems.push_back(bias + " was trained (bias = \"lora_only\") and is not in the file");
  }
  if (problems.empty()) return {};
  const std::size_t all = problems.size(), shown = 8;
  if (all > shown) problems.resize(shown), problems.push_back(format("and {} more", all - shown));
  return make_error(ErrorCode::invalid_input,
                    format("{} is no adapter of this model: {}", folder_, join(problems, "; ")),
                    format("it was trained on base_model_name_or_path = \"{}\"", base_));
}

}  // namespace longhaul
