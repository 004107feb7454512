#include "engine/quantize/int8.h"

#include <algorithm>
#include <cmath>

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "engine/interop/safetensors.h"

namespace longhaul {
namespace {

constexpr float levels = 127;

std::string_view bytes_of(const auto& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0])};
}

Status write_quantized(SafetensorsWriter& writer, const std::string& name, const SafetensorView& tensor) {
  std::vector<float> wide(static_cast<std::size_t>(tensor.elements()));
  LH_CHECK(convert_to_f32(tensor, wide));
  auto matrix = quantize_int8(wide, tensor.shape[0], tensor.shape[1]);
  if (!matrix) return matrix.error().with_context(name);
  LH_CHECK(writer.write(name, bytes_of(matrix->q)));
  return writer.write(name + "_scale", bytes_of(matrix->scales));
}

// Everything beside weights and config.json that belongs to the model.
Status copy_companions(const std::string& from, const std::string& to) {
  for (const char* name :
       {"tokenizer.json", "tokenizer_config.json", "generation_config.json", "special_tokens_map.json"}) {
    const std::string path = join_path(from, name);
    if (!file_exists(path)) continue;
    LH_TRY(const std::string text, read_file(path));
    LH_CHECK(write_file_atomic(join_path(to, name), text));
  }
  return {};
}

}  // namespace

Result<Int8Matrix> quantize_int8(std::span<const float> weight, std::int64_t rows, std::int64_t columns) {
  LH_ASSERT(static_cast<std::int64_t>(weight.size()) == rows * columns,
            format("{} x {} of {}", rows, columns, weight.size()));
  Int8Matrix out{rows, columns, std::vector<std::int8_t>(weight.size()),
                 std::vector<float>(static_cast<std::size_t>(rows))};
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto in = weight.subspan(static_cast<std::size_t>(row * columns), static_cast<std::size_t>(columns));
    float largest = 0;
    for (const float w : in) {
      if (!std::isfinite(w)) return make_error(ErrorCode::corrupt, format("a weight in row {} is not finite", row));
      largest = std::max(largest, std::fabs(w));
    }
    // A subnormal row would make the scale 0: it counts as zeros.
    const float scale = largest / levels >= 1e-30F ? largest / levels : 1.0F;
    out.scales[static_cast<std::size_t>(row)] = scale;
    std::int8_t* q = out.q.data() + row * columns;
    for (const float w : in) *q++ = static_cast<std::int8_t>(std::clamp(std::nearbyint(w / scale), -levels, levels));
  }
  return out;
}

void dequantize_int8(const Int8Matrix& matrix, std::span<float> out) {
  for (std::int64_t i = 0; i < matrix.rows * matrix.columns; ++i) {
    const auto at = static_cast<std::size_t>(i);
    out[at] = matrix.scales[static_cast<std::size_t>(i / matrix.columns)] * static_cast<float>(matrix.q[at]);
  }
}

bool is_quantized_tensor(const std::string& name, bool embedding) {
  if (name == "model.embed_tokens.weight" || name == "lm_head.weight") return embedding;
  return ends_with(name, "_proj.weight");
}

Value int8_quantization_config(bool embedding) {
  Value weights;
  weights.set("num_bits", 8);
  weights.set("type", "int");
  weights.set("symmetric", true);
  weights.set("strategy", "channel");
  weights.set("dynamic", false);
  Value group;
  group.set("targets", ValueArray{Value("Linear")});
  group.set("weights", std::move(weights));
  group.set("input_activations", Value());
  Value groups;
  groups.set("group_0", std::move(group));
  Value out;
  out.set("quant_method", "compressed-tensors");
  out.set("format", "int-quantized");
  out.set("quantization_status", "compressed");
  out.set("config_groups", std::move(groups));
  out.set("ignore", embedding ? ValueArray{} : ValueArray{Value("lm_head")});
  return out;
}

Result<QuantizedBytes> quantize_folder_int8(const std::string& model, const std::string& out, bool embedding) {
  LH_TRY(const std::string config_text, read_file(join_path(model, "config.json")));
  LH_TRY(Value config, parse_json(config_text, join_path(model, "config.json")));
  if (config.find("quantization_config") != nullptr) {
    return make_error(ErrorCode::invalid_input, model + " is quantized already",
                      "quantize the model that it was made from");
  }
  if (config.get_string("model_type") == "gpt2")
    return make_error(ErrorCode::unsupported, model + " is a gpt2 model: its weights are not stored row by row",
                      "int8 is for models of the Llama family; serve this one in bf16");
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
    infos.push_back({name, SafetensorType::i8, tensor.shape});
    infos.push_back({name + "_scale", SafetensorType::f32, {tensor.shape[0], 1}});
    bytes.after += tensor.elements() + 4 * tensor.shape[0];
    ++quantized;
  }
  if (quantized == 0)
    return make_error(ErrorCode::invalid_input, model + " has no projection weights", "is it a Llama model?");
  LH_CHECK(make_directories(out));
  LH_TRY(SafetensorsWriter writer,
         SafetensorsWriter::create(join_path(out, "model.safetensors"), infos, {{"format", "pt"}}));
  for (const std::string& name : file.names()) {
    LH_TRY(const SafetensorView tensor, file.find(name));
    LH_CHECK(is_quantized_tensor(name, embedding) ? write_quantized(writer, name, tensor)
                                                  : writer.write(name, tensor.bytes));
  }
  LH_CHECK(writer.finish());
  config.set("quantization_config", int8_quantization_config(embedding));
  LH_CHECK(write_file_atomic(join_path(out, "config.json"), to_json_pretty(config)));
  LH_CHECK(copy_companions(model, out));
  return bytes;
}

}  // namespace longhaul
