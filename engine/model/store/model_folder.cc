#include "engine/model/store/model_folder.h"

#include <algorithm>

#include "base/digest/philox.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/interop/folder/model_companions.h"

namespace longhaul {

Result<HfConfig> load_model_config(const std::string& folder, AdapterParts parts) {
  LH_TRY(HfConfig config, load_any_model_config(folder));
  const bool refused = parts == AdapterParts::refused;
  if (config.shape.virtual_tokens > 0 && refused)
    return make_error(
        ErrorCode::unsupported,
        format("{} has {} that stand before every text (adapter.kind = \"{}\"), which are known to "
               "evaluate, sample and deploy alone",
               folder, virtual_tokens_text(config.shape), config.shape.virtual_keys ? "prefix" : "prompt"),
        "take the model that it was tuned from; its folder `adapter` has them in PEFT's files");
  if (config.shape.bottleneck.size > 0 && refused)
    return make_error(
        ErrorCode::unsupported,
        format("{} has {} (adapter.kind = \"bottleneck\"), which are known to evaluate, sample and deploy alone",
               folder, bottleneck_text(config.shape)),
        "take the model that it was tuned from; its folder `adapter` has them by themselves");
  if (!config.shape.scalar_head) return config;
  return make_error(ErrorCode::invalid_input, folder + " is a reward model, which writes no text",
                    "it judges answers: inputs.reward of an align stage with reward.kind = \"model\"");
}

Result<HfConfig> load_any_model_config(const std::string& folder) {
  const std::string path = join_path(folder, "config.json");
  if (!file_exists(path))
    return make_error(ErrorCode::not_found, "there is no " + path,
                      "a model is a folder with config.json, model.safetensors and tokenizer.json");
  LH_TRY(HfConfig config, load_hf_config(path));
  LH_TRY(SafetensorsModel weights, SafetensorsModel::open(folder));  // whole, as far as its headers show
  LH_CHECK(tie_embeddings(weights, config.shape).with_context(folder));
  LH_TRY(const std::vector<std::string> names, list_directory(folder));
  std::uint64_t bytes = 0;
  for (const std::string& name : names)
    if (ends_with(name, ".safetensors"))
      bytes += file_size(join_path(folder, name)).ok() ? *file_size(join_path(folder, name)) : 0;
  // The smallest type has four bits: said before memory is taken for weights that are not there.
  const auto parameters = static_cast<std::uint64_t>(config.shape.parameter_count());
  if (bytes > 0 && 2 * bytes < parameters)
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

// Calls take(first, count, at) for every stretch of a box that is without gaps in the whole tensor: elements
// [first, first + count) of the tensor are elements [at, at + count) of the box.
template <class F>
Status for_each_stretch(const std::vector<std::int64_t>& shape, const Box& box, F take) {
  std::size_t whole = shape.size();  // dims [whole, end) are taken whole
  std::int64_t inner = 1;
  while (whole > 0 && box.extent[whole - 1] == shape[whole - 1]) inner *= shape[--whole];
  const std::int64_t split = whole > 0 ? whole - 1 : 0;  // the dim in which a stretch may begin inside
  const std::int64_t count = whole > 0 ? box.extent[whole - 1] * inner : inner;
  const std::int64_t elements = box.elements();
  for (std::int64_t at = 0; at < elements; at += count) {
    std::int64_t row = at / count, first = whole > 0 ? box.offset[whole - 1] * inner : 0;
    std::int64_t stride = whole > 0 ? shape[whole - 1] * inner : 0;
    for (std::int64_t dim = split; dim-- > 0;) {
      const auto d = static_cast<std::size_t>(dim);
      first += (box.offset[d] + row % box.extent[d]) * stride;
      row /= box.extent[d];
      stride *= shape[d];
    }
    LH_CHECK(take(first, count, at));
  }
  return {};
}

SafetensorView stretch_of(const SafetensorView& tensor, std::int64_t first, std::int64_t count) {
  const std::size_t size = element_bytes(tensor.type);
  return {tensor.type,
          {count},
          tensor.bytes.substr(static_cast<std::size_t>(first) * size, static_cast<std::size_t>(count) * size)};
}

// One scale for each row (the first dim).
Status read_int8(const SafetensorsModel& file, const ParameterSpec& spec, const SafetensorView& tensor, const Box& box,
                 std::span<float> out) {
  const std::string scale_name = spec.name + "_scale";
  LH_TRY(const SafetensorView scale, file.find(scale_name));
  if (scale.elements() != spec.shape[0])
    return make_error(ErrorCode::invalid_input,
                      format("{} has {} scales for {} rows", scale_name, scale.elements(), spec.shape[0]));
  std::vector<float> scales(static_cast<std::size_t>(box.extent[0]));
  LH_CHECK(convert_to_f32(stretch_of(scale, box.offset[0], box.extent[0]), scales));
  const std::int64_t columns = box.elements() / std::max<std::int64_t>(1, box.extent[0]);
  return for_each_stretch(spec.shape, box, [&](std::int64_t first, std::int64_t count, std::int64_t at) {
    const char* from = tensor.bytes.data() + first;
    for (std::int64_t i = 0; i < count; ++i)
      out[static_cast<std::size_t>(at + i)] =
          scales[static_cast<std::size_t>((at + i) / columns)] * static_cast<float>(static_cast<signed char>(from[i]));
    return Status();
  });
}

}  // namespace

Result<ModelFolderReader> ModelFolderReader::open(const std::string& folder, const ModelShape& shape) {
  LH_TRY(SafetensorsModel file, SafetensorsModel::open(folder));
  LH_CHECK(tie_embeddings(file, shape).with_context(folder));
  ModelFolderReader reader(folder, std::move(file));
  reader.tensors_ = stored_tensors(shape);
  for (std::size_t i = 0; i < reader.tensors_.size(); ++i)
    for (std::size_t part = 0; part < reader.tensors_[i].parts.size(); ++part)
      reader.places_[reader.tensors_[i].parts[part].name] = {i, part};
  return reader;
}

namespace {

// A box of a parameter that is some columns (or elements) of a tensor, stored [in, out] if it is a matrix: rows of the
// box are columns there.
Status read_moved(const StoredTensor& stored, std::size_t part, const SafetensorView& tensor, const Box& box,
                  std::span<float> out) {
  std::int64_t before = 0;
  for (std::size_t i = 0; i < part; ++i) before += stored.parts[i].shape[0];
  const std::int64_t rows = box.extent[0], first = before + box.offset[0];
  if (!stored.transposed) return convert_to_f32(stretch_of(tensor, first, rows), out);
  const std::int64_t columns = box.extent[1];
  std::vector<float> column(static_cast<std::size_t>(rows));
  for (std::int64_t c = 0; c < columns; ++c) {
    LH_CHECK(convert_to_f32(stretch_of(tensor, (box.offset[1] + c) * stored.shape[1] + first, rows), column));
    for (std::int64_t r = 0; r < rows; ++r)
      out[static_cast<std::size_t>(r * columns + c)] = column[static_cast<std::size_t>(r)];
  }
  return {};
}

}  // namespace

Status read_stored_box(const SafetensorsModel& file, const StoredTensor& stored, std::size_t part, const Box& box,
                       std::span<float> out) {
  LH_TRY(const SafetensorView tensor, find_stored(file, stored));
  if (!stored.is_plain()) return read_moved(stored, part, tensor, box, out).with_context(stored.name);
  if (tensor.type == SafetensorType::i8) return read_int8(file, stored.parts[0], tensor, box, out);
  const auto convert = [&](std::int64_t first, std::int64_t count, std::int64_t at) {
    return convert_to_f32(stretch_of(tensor, first, count),
                          out.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count)));
  };
  return for_each_stretch(stored.shape, box, convert).with_context(stored.name);
}

Status ModelFolderReader::read(const ParameterSpec& spec, const Box& box, std::span<float> out) const {
  const auto place = places_.find(spec.name);
  LH_ASSERT(place != places_.end() && static_cast<std::int64_t>(out.size()) == box.elements(), spec.name);
  const StoredTensor& stored = tensors_[place->second.tensor];
  LH_TRY(const SafetensorView tensor, find_stored(file_, stored));
  if (tensor.shape != stored.shape)
    return make_error(ErrorCode::invalid_input,
                      format("{}: {} has the shape [{}], config.json asks for [{}]", folder_, stored.name,
                             shape_text(tensor.shape), shape_text(stored.shape)),
                      "weights and config.json do not belong together: copy both from one place");
  return read_stored_box(file_, stored, place->second.part, box, out);
}

namespace {

// "Sampled vocabulary" of Lester et al. 2021, section 3.2.
Status read_sampled_rows(const ModelFolderReader& reader, const ModelShape& shape, std::uint64_t seed,
                         std::span<float> out) {
  const ParameterSpec table = parameter_list(shape).front();
  const Philox random{seed, parameter_stream(prompt_name)};
  const auto width = static_cast<std::size_t>(shape.hidden_size);
  for (std::int64_t i = 0; i < shape.virtual_tokens; ++i) {
    const auto row = static_cast<std::int64_t>(random.u64(static_cast<std::uint64_t>(i)) %
                                               static_cast<std::uint64_t>(shape.vocab_size));
    LH_CHECK(reader.read(table, {{row, 0}, {1, shape.hidden_size}},
                         out.subspan(static_cast<std::size_t>(i) * width, width)));
  }
  return {};
}

}  // namespace

Status load_model_weights(const ComputeContext& context, const std::string& folder, ParameterStore& store,
                          std::optional<std::uint64_t> new_head, std::optional<std::uint64_t> new_parts) {
  LH_TRY(const ModelFolderReader reader, ModelFolderReader::open(folder, store.shape()));
  std::vector<float> values;
  for (const FlatParameter& p : store.layout().parameters()) {
    values.resize(static_cast<std::size_t>(p.end - p.begin));
    if (new_head && p.spec.name == scalar_head_name)
      initialize_box(context, p.spec, p.box, *new_head, values);
    else if (new_parts && p.spec.name == prompt_name)
      LH_CHECK(read_sampled_rows(reader, store.shape(), *new_parts, values));
    else if (new_parts && (is_of_prefix(p.spec) || is_of_bottleneck(p.spec)))
      initialize_box(context, p.spec, p.box, *new_parts, values);
    else
      LH_CHECK(reader.read(p.spec, p.box, values));
    store.put(context, p, values);
  }
  return {};
}

namespace {

// What the folder's own says, with the ids of this model.
Value generation_config(Value value, const HfConfig& config) {
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

Result<ModelFolderWriter> ModelFolderWriter::create(const std::string& folder, const ModelFolderOptions& options) {
  LH_CHECK(make_directories(folder));
  std::vector<StoredTensor> tensors = stored_tensors(options.config.shape);
  std::vector<SafetensorInfo> infos;
  for (const StoredTensor& tensor : tensors)
    infos.push_back({tensor.name, options.dtype == "bf16" ? SafetensorType::bf16 : SafetensorType::f32, tensor.shape});
  LH_TRY(SafetensorsModelWriter weights,
         SafetensorsModelWriter::create(folder, std::move(infos), options.shard_bytes_max, {{"format", "pt"}}));
  ModelFolderWriter writer(folder, options, std::move(weights));
  writer.tensors_ = std::move(tensors);
  return writer;
}

Status ModelFolderWriter::add(const std::string& name, std::span<const float> values) {
  if (tensor_ == tensors_.size() || tensors_[tensor_].parts[part_].name != name)
    return make_error(ErrorCode::internal, format("{}: {} comes out of its order", folder_, name));
  const StoredTensor& stored = tensors_[tensor_];
  if (stored.is_plain()) {
    ++tensor_;
    return write(stored.name, values);
  }
  if (part_ == 0) {
    std::int64_t elements = 0;
    for (const ParameterSpec& part : stored.parts) elements += part.elements();
    moved_.resize(static_cast<std::size_t>(elements));
  }
  put_part(stored, part_, values, moved_);
  if (++part_ < stored.parts.size()) return {};
  ++tensor_, part_ = 0;
  return write(stored.name, moved_);
}

Status ModelFolderWriter::write(const std::string& tensor, std::span<const float> values) {
  if (options_.dtype != "bf16")
    return weights_.write(tensor, {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  narrow_.resize(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) narrow_[i] = bf16(values[i]);
  return weights_.write(tensor, {reinterpret_cast<const char*>(narrow_.data()), narrow_.size() * sizeof(bf16)});
}

Status ModelFolderWriter::finish() {
  LH_CHECK(weights_.finish());
  HfConfig config = options_.config;
  config.dtype = options_.dtype == "bf16" ? "bfloat16" : "float32";
  LH_CHECK(write_file_atomic(join_path(folder_, "config.json"), to_json_pretty(write_hf_config(config))));
  Value generation = Value::make_table();
  if (!options_.tokenizer_folder.empty()) {
    LH_CHECK(copy_model_companions(options_.tokenizer_folder, folder_));
    LH_TRY(generation, read_generation_config(options_.tokenizer_folder));
  }
  return write_file_atomic(join_path(folder_, "generation_config.json"),
                           to_json_pretty(generation_config(std::move(generation), config)));
}

}  // namespace longhaul
