#include "engine/interop/peft_writer.h"

#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"

namespace longhaul {

namespace {

std::string peft_name(const std::string& parameter) {
  return "base_model.model." + parameter;
}

// Modules by their whole names: the same matrices whatever else a model has.
Value modules_of(const std::vector<AdaptedMatrix>& matrices, bool (*is_meant)(const AdaptedMatrix&)) {
  Value list = Value::make_array();
  for (const AdaptedMatrix& m : matrices)
    if (is_meant(m)) list.push_back(m.matrix.name.substr(0, m.matrix.name.size() - std::string(".weight").size()));
  return list;
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
  config.set("r", static_cast<long long>(adapter.rank));
  config.set("lora_alpha", adapter.alpha);
  config.set("lora_dropout", 0.0);
  config.set("bias", "none");
  config.set("use_rslora", adapter.rslora);
  config.set("use_dora", adapter.kind == "dora");
  config.set("rank_pattern", Value::make_table());
  config.set("alpha_pattern", Value::make_table());
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
  for (const AdaptedMatrix& matrix : matrices)
    for (const ParameterSpec& own : matrix.own) {
      SafetensorInfo info;
      info.name = peft_name(own.name), info.shape = stored_shape(matrix, own, shape.adapter.kind == "ia3");
      tensors.push_back(std::move(info));
    }
  LH_CHECK(make_directories(folder));
  LH_TRY(SafetensorsWriter file, SafetensorsWriter::create(join_path(folder, "adapter_model.safetensors"),
                                                           std::move(tensors), {{"format", "pt"}}));
  return PeftWriter(folder, to_json_pretty(config_of(shape, matrices, base_model)) + "\n", std::move(file));
}

Status PeftWriter::add(const std::string& name, std::span<const float> values) {
  const auto bytes = std::as_bytes(values);
  return file_.write(peft_name(name), {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

Status PeftWriter::finish() {
  LH_CHECK(file_.finish());
  return write_file_atomic(join_path(folder_, "adapter_config.json"), config_);
}

}  // namespace longhaul
