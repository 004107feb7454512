#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/model/hf_config.h"
#include "contracts/settings/training/feature_table.h"
#include "engine/interop/folder/model_companions.h"
#include "engine/quantize/weight_format.h"

namespace longhaul {
Result<QuantizedBytes> quantize_folder(const std::string& model, const std::string& out, WeightCodes codes,
                                       bool embedding) {
  LH_TRY(const std::string config_text, read_file(join_path(model, "config.json")));
  LH_TRY(Value config, parse_json(config_text, join_path(model, "config.json")));
  if (config.find("quantization_config") != nullptr) {
    return make_error(ErrorCode::invalid_input, model + " is quantized already",
                      "quantize the model that it was made from");
  }
  EngineCase asked;
  asked.kind = "quantize", asked.weights = name_of(codes), asked.quantized_embedding = embedding;
  if (config.find("num_local_experts") != nullptr) asked.shape.num_local_experts = 1;
  if (config.get_string("model_type") == "gpt2") asked.shape.architecture = "gpt2";
  asked.shape.virtual_tokens = config.get_integer(virtual_tokens_key);
  asked.shape.virtual_keys = config.get_bool(virtual_keys_key);
  if (config.find(bottleneck_key) != nullptr) {
    LH_TRY(const HfConfig read, read_hf_config(config, join_path(model, "config.json")));
    asked.shape.bottleneck = read.shape.bottleneck;
  }
  LH_CHECK(check_engine(asked).with_context(model));
  LH_TRY(const SafetensorsModel file, SafetensorsModel::open(model));
  std::vector<SafetensorInfo> infos;
  QuantizedBytes bytes;
  int quantized = 0;
  for (const std::string& name : file.names()) {
    LH_TRY(const SafetensorView tensor, file.find(name));
    bytes.before += static_cast<std::int64_t>(tensor.bytes.size());
    if (!is_quantized_tensor(name, embedding)) {
      infos.push_back({name, tensor.type, tensor.shape});
      bytes.after += static_cast<std::int64_t>(tensor.bytes.size());
      continue;
    }
    if (tensor.shape.size() != 2)
      return make_error(ErrorCode::invalid_input, format("{} in {} is no matrix", name, model));
    for (SafetensorInfo& info : quantized_tensors(codes, name, tensor.shape[0], tensor.shape[1])) {
      bytes.after += info.elements() * static_cast<std::int64_t>(element_bytes(info.type));
      infos.push_back(std::move(info));
    }
    ++quantized;
  }
  if (quantized == 0)
    return make_error(ErrorCode::invalid_input, model + " has no projection weights", "is it a Llama model?");
  LH_CHECK(make_directories(out));
  LH_TRY(SafetensorsWriter writer,
         SafetensorsWriter::create(join_path(out, "model.safetensors"), infos, {{"format", "pt"}}));
  for (const std::string& name : file.names()) {
    LH_TRY(const SafetensorView tensor, file.find(name));
    LH_CHECK(is_quantized_tensor(name, embedding) ? write_quantized(writer, codes, name, tensor)
                                                  : writer.write(name, tensor.bytes));
  }
  LH_CHECK(writer.finish());
  config.set("quantization_config", quantization_config(codes, embedding));
  LH_CHECK(write_file_atomic(join_path(out, "config.json"), to_json_pretty(config)));
  LH_CHECK(copy_model_companions(model, out));
  return bytes;
}

}  // namespace longhaul
