#include "engine/model/model_folder.h"

#include <cstring>

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "engine/interop/safetensors.h"
#include "engine/model/stored_tensors.h"
#include "engine/parallel/box_copy.h"

namespace longhaul {

Result<HfConfig> load_model_config(const std::string& folder) {
  const std::string path = join_path(folder, "config.json");
  if (!file_exists(path))
    return make_error(ErrorCode::not_found, "there is no " + path,
                      "a model is a folder with config.json, model.safetensors and tokenizer.json");
  LH_TRY(HfConfig config, load_hf_config(path));
  LH_CHECK(SafetensorsModel::open(folder));  // whole, as far as its headers tell
  LH_TRY(const std::vector<std::string> names, list_directory(folder));
  std::uint64_t bytes = 0;
  for (const std::string& name : names)
    if (ends_with(name, ".safetensors"))
      bytes += file_size(join_path(folder, name)).ok() ? *file_size(join_path(folder, name)) : 0;
  // The smallest type has a byte: said before memory is taken for weights that are not there.
  const auto parameters = static_cast<std::uint64_t>(config.shape.parameter_count());
  if (bytes > 0 && bytes < parameters)
    return make_error(
        ErrorCode::corrupt,
        format("{} describes {} parameters, but the weights beside it have only {} bytes", path, parameters, bytes),
        "the weights are cut off, or belong to another config.json: copy both again");
  return config;
}

namespace {

std::string shape_text(std::span<const std::int64_t> shape) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : shape) sizes.push_back(std::to_string(size));
  return join(sizes, ", ");
}

Status read_int8(const SafetensorsModel& file, const FlatParameter& p, const SafetensorView& tensor,
                 std::span<float> out) {
  const std::string scale_name = p.spec.name + "_scale";
  LH_TRY(const SafetensorView scale, file.find(scale_name));
  std::vector<float> scales(static_cast<std::size_t>(p.spec.shape[0]));
  if (scale.elements() != p.spec.shape[0])
    return make_error(ErrorCode::invalid_input,
                      format("{} has {} scales for {} rows", scale_name, scale.elements(), p.spec.shape[0]));
  LH_CHECK(convert_to_f32(scale, scales));
  const auto columns = static_cast<std::size_t>(p.spec.elements() / p.spec.shape[0]);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = scales[i / columns] * static_cast<float>(static_cast<signed char>(tensor.bytes[i]));
  return {};
}

}  // namespace

namespace {

Status read_tensor(const SafetensorsModel& file, const FlatParameter& p, const SafetensorView& tensor,
                   std::span<float> out) {
  if (tensor.type == SafetensorType::i8) return read_int8(file, p, tensor, out);
  return convert_to_f32(tensor, out).with_context(p.spec.name);
}

// What this rank holds of a parameter, from all of it.
void keep_box(const ComputeContext& context, const FlatParameter& p, std::span<const float> whole,
              ParameterStore& store) {
  if (p.is_whole()) return store.put(context, p, whole);
  std::vector<float> box(static_cast<std::size_t>(p.end - p.begin));
  copy_between_boxes(whole, whole_box(p.spec.shape), 0, p.spec.elements(), p.box, box);
  store.put(context, p, box);
}

Status read_parts(const ComputeContext& context, const StoredTensor& stored, const SafetensorView& tensor,
                  ParameterStore& store) {
  std::vector<float> all(static_cast<std::size_t>(tensor.elements())), whole;
  LH_CHECK(convert_to_f32(tensor, all).with_context(stored.name));
  for (std::size_t part = 0; part < stored.parts.size(); ++part) {
    const FlatParameter* p = store.layout().find_if_held(stored.parts[part].name);
    if (!p) continue;
    whole.resize(static_cast<std::size_t>(p->spec.elements()));
    take_part(stored, part, all, whole);
    keep_box(context, *p, whole, store);
  }
  return {};
}

bool holds_some(const ParameterStore& store, const StoredTensor& stored) {
  for (const ParameterSpec& part : stored.parts)
    if (store.layout().find_if_held(part.name)) return true;
  return false;
}

}  // namespace

Status load_model_weights(const ComputeContext& context, const std::string& folder, ParameterStore& store) {
  LH_TRY(const SafetensorsModel file, SafetensorsModel::open(folder));
  for (const StoredTensor& stored : stored_tensors(store.shape())) {
    if (!holds_some(store, stored)) continue;
    LH_TRY(const SafetensorView tensor, find_stored(file, stored));
    if (tensor.shape != stored.shape)
      return make_error(ErrorCode::invalid_input,
                        format("{}: {} has the shape [{}], config.json asks for [{}]", folder, stored.name,
                               shape_text(tensor.shape), shape_text(stored.shape)),
                        "weights and config.json do not belong together: copy both from one place");
    if (!stored.is_plain()) {
      LH_CHECK(read_parts(context, stored, tensor, store));
      continue;
    }
    const FlatParameter& p = store.layout().find(stored.name);
    std::vector<float> whole(static_cast<std::size_t>(p.spec.elements()));
    LH_CHECK(read_tensor(file, p, tensor, whole));
    keep_box(context, p, whole, store);
  }
  return {};
}

namespace {

std::span<const float> values_of(const ParameterStore& store, const std::string& name) {
  const FlatParameter& p = store.layout().find(name);
  return store.masters().subspan(static_cast<std::size_t>(p.begin), static_cast<std::size_t>(p.end - p.begin));
}

Status write_weights(const std::string& folder, const ParameterStore& store, bool as_bf16) {
  const std::vector<StoredTensor> tensors = stored_tensors(store.shape());
  std::vector<SafetensorInfo> infos;
  for (const StoredTensor& tensor : tensors)
    infos.push_back({tensor.name, as_bf16 ? SafetensorType::bf16 : SafetensorType::f32, tensor.shape});
  LH_TRY(SafetensorsWriter writer,
         SafetensorsWriter::create(join_path(folder, "model.safetensors"), std::move(infos), {{"format", "pt"}}));
  std::vector<bf16> narrow;
  std::vector<float> moved;
  for (const StoredTensor& tensor : tensors) {
    std::span<const float> values = values_of(store, tensor.parts[0].name);
    if (!tensor.is_plain()) {
      std::int64_t elements = 0;
      for (const ParameterSpec& part : tensor.parts) elements += part.elements();
      moved.resize(static_cast<std::size_t>(elements));
      for (std::size_t part = 0; part < tensor.parts.size(); ++part)
        put_part(tensor, part, values_of(store, tensor.parts[part].name), moved);
      values = moved;
    }
    std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size_bytes());
    if (as_bf16) {
      narrow.resize(values.size());
      for (std::size_t i = 0; i < values.size(); ++i) narrow[i] = bf16(values[i]);
      bytes = {reinterpret_cast<const char*>(narrow.data()), narrow.size() * sizeof(bf16)};
    }
    LH_CHECK(writer.write(tensor.name, bytes));
  }
  return writer.finish();
}

Value generation_config(const HfConfig& config) {
  Value value = Value::make_table();
  if (config.bos_token_id >= 0) value.set("bos_token_id", config.bos_token_id);
  if (config.eos_token_ids.size() == 1) value.set("eos_token_id", config.eos_token_ids.front());
  if (config.eos_token_ids.size() > 1) {
    Value ids = Value::make_array();
    for (const std::int64_t id : config.eos_token_ids) ids.push_back(id);
    value.set("eos_token_id", std::move(ids));
  }
  if (config.pad_token_id >= 0) value.set("pad_token_id", config.pad_token_id);
  return value;
}

}  // namespace

Status write_model_folder(const std::string& folder, const ParameterStore& store, const ModelFolderOptions& options) {
  LH_CHECK(make_directories(folder));
  const bool as_bf16 = options.dtype == "bf16";
  HfConfig config = options.config;
  config.shape = store.shape();
  config.dtype = as_bf16 ? "bfloat16" : "float32";
  LH_CHECK(write_weights(folder, store, as_bf16));
  LH_CHECK(write_file_atomic(join_path(folder, "config.json"), to_json_pretty(write_hf_config(config))));
  LH_CHECK(write_file_atomic(join_path(folder, "generation_config.json"), to_json_pretty(generation_config(config))));
  if (options.tokenizer_folder.empty()) return {};
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) {
    const std::string from = join_path(options.tokenizer_folder, name);
    if (!file_exists(from)) continue;
    LH_TRY(const std::string text, read_file(from));
    LH_CHECK(write_file_atomic(join_path(folder, name), text));
  }
  return {};
}

}  // namespace longhaul
