#include "engine/quantize/weight_format.h"

#include "base/text/text.h"
#include "engine/ops/linear/weight_only.h"
#include "engine/quantize/int8.h"

namespace longhaul {
namespace {

std::string_view bytes_of(const auto& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0])};
}

struct FormatRow {
  WeightCodes codes;
  const char *name, *format, *type, *strategy;
  int bits;
};
constexpr FormatRow rows_of_formats[] = {
    {WeightCodes::int8, "int8", "int-quantized", "int", "channel", 8},
    {WeightCodes::fp8, "fp8", "float-quantized", "float", "channel", 8},
    {WeightCodes::int4, "int4", "pack-quantized", "int", "group", 4},
};
const FormatRow& row_of(WeightCodes codes) {
  return rows_of_formats[static_cast<std::size_t>(codes)];
}

Error not_finite(const std::string& name) {
  return make_error(ErrorCode::corrupt, name + " has a weight that is not finite");
}

Status write_fp8(SafetensorsWriter& writer, const std::string& name, std::span<const float> weight, std::int64_t rows,
                 std::int64_t columns) {
  std::vector<std::uint8_t> codes(weight.size());
  std::vector<float> scales(static_cast<std::size_t>(rows));
  if (!quantize_fp8(rows, columns, weight, codes, scales)) return not_finite(name);
  LH_CHECK(writer.write(name, bytes_of(codes)));
  return writer.write(name + "_scale", bytes_of(scales));
}

Status write_int4(SafetensorsWriter& writer, const std::string& name, std::span<const float> weight, std::int64_t rows,
                  std::int64_t columns) {
  std::vector<std::uint8_t> packed(static_cast<std::size_t>(rows * int4_row_bytes(columns)));
  std::vector<bf16> scales(static_cast<std::size_t>(rows * int4_groups(columns, kInt4Group)));
  if (!quantize_int4(rows, columns, kInt4Group, weight, packed, scales)) return not_finite(name);
  LH_CHECK(writer.write(name + "_packed", bytes_of(packed)));
  LH_CHECK(writer.write(name + "_scale", bytes_of(scales)));
  return writer.write(name + "_shape", bytes_of(std::vector<std::int64_t>{rows, columns}));
}

}  // namespace

WeightCodes parse_weight_codes(const std::string& name) {
  for (const FormatRow& row : rows_of_formats)
    if (name == row.name) return row.codes;
  LH_ASSERT(false, name);
  return WeightCodes::int8;
}
const char* name_of(WeightCodes codes) {
  return row_of(codes).name;
}

bool is_quantized_tensor(const std::string& name, bool embedding) {
  if (name == "model.embed_tokens.weight" || name == "lm_head.weight") return embedding;
  return ends_with(name, "_proj.weight");
}

Value quantization_config(WeightCodes codes, bool embedding) {
  const FormatRow& row = row_of(codes);
  Value weights;
  weights.set("num_bits", row.bits);
  weights.set("type", row.type);
  weights.set("symmetric", true);
  weights.set("strategy", row.strategy);
  if (codes == WeightCodes::int4) weights.set("group_size", kInt4Group);
  weights.set("dynamic", false);
  Value group;
  group.set("targets", ValueArray{Value("Linear")});
  group.set("weights", std::move(weights));
  group.set("input_activations", Value());
  Value groups;
  groups.set("group_0", std::move(group));
  Value out;
  out.set("quant_method", "compressed-tensors");
  out.set("format", row.format);
  out.set("quantization_status", "compressed");
  out.set("config_groups", std::move(groups));
  out.set("ignore", embedding ? ValueArray{} : ValueArray{Value("lm_head")});
  return out;
}

std::vector<SafetensorInfo> quantized_tensors(WeightCodes codes, const std::string& name, std::int64_t rows,
                                              std::int64_t columns) {
  switch (codes) {
    case WeightCodes::int8:
      return {{name, SafetensorType::i8, {rows, columns}}, {name + "_scale", SafetensorType::f32, {rows, 1}}};
    case WeightCodes::fp8:
      return {{name, SafetensorType::f8_e4m3, {rows, columns}}, {name + "_scale", SafetensorType::f32, {rows, 1}}};
    case WeightCodes::int4: break;
  }
  return {{name + "_packed", SafetensorType::i32, {rows, int4_row_bytes(columns) / 4}},
          {name + "_scale", SafetensorType::bf16, {rows, int4_groups(columns, kInt4Group)}},
          {name + "_shape", SafetensorType::i64, {2}}};
}

Status write_quantized(SafetensorsWriter& writer, WeightCodes codes, const std::string& name,
                       const SafetensorView& tensor) {
  const std::int64_t rows = tensor.shape[0], columns = tensor.shape[1];
  std::vector<float> wide(static_cast<std::size_t>(tensor.elements()));
  LH_CHECK(convert_to_f32(tensor, wide));
  if (codes == WeightCodes::fp8) return write_fp8(writer, name, wide, rows, columns);
  if (codes == WeightCodes::int4) return write_int4(writer, name, wide, rows, columns);
  auto matrix = quantize_int8(wide, rows, columns);
  if (!matrix) return matrix.error().with_context(name);
  LH_CHECK(writer.write(name, bytes_of(matrix->q)));
  return writer.write(name + "_scale", bytes_of(matrix->scales));
}

}  // namespace longhaul
