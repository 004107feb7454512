// The formats of weights that the quantize stage writes, all weights only, in the forms of compressed-tensors:
//   int8  "int-quantized": int8.h
//   fp8   "float-quantized": "<name>.weight" F8_E4M3 [out, in], "<name>.weight_scale" F32 [out, 1]
//   int4  "pack-quantized", symmetric, groups of 128 along the inputs: "<name>.weight_packed" I32 [out, ceil(in / 8)],
//         "<name>.weight_scale" BF16 [out, ceil(in / 128)], "<name>.weight_shape" I64 [2]
// What the codes of the last two mean stands in engine/ops/linear/weight_only.h. Weights are rounded to nearest;
// nothing is calibrated.
#pragma once

#include <string>
#include <vector>

#include "base/error/result.h"
#include "base/value/value.h"
#include "engine/interop/safetensors.h"

namespace longhaul {

enum class WeightCodes { int8, fp8, int4 };
inline constexpr std::int64_t kInt4Group = 128;

// "int8", "fp8", "int4"; another name is a caller's bug (settings are checked).
WeightCodes parse_weight_codes(const std::string& name);
const char* name_of(WeightCodes codes);

// Which tensors of a Llama model are quantized: the seven projections of a block; with `embedding` (int8 alone), the
// embedding and the output too.
bool is_quantized_tensor(const std::string& name, bool embedding);
// The `quantization_config` of config.json.
Value quantization_config(WeightCodes codes, bool embedding);

// What a matrix "<name>.weight" [rows, columns] becomes in the file.
std::vector<SafetensorInfo> quantized_tensors(WeightCodes codes, const std::string& name, std::int64_t rows,
                                              std::int64_t columns);
// Writes them. ErrorCode::corrupt for a weight that is not finite.
Status write_quantized(SafetensorsWriter& writer, WeightCodes codes, const std::string& name,
                       const SafetensorView& tensor);

struct QuantizedBytes {
  std::int64_t before = 0, after = 0;  // of all tensors
};
// Reads `model` (config.json, model.safetensors), writes `out` (the same with quantized weights; tokenizer files are
// copied). Refuses a model that is quantized already.
Result<QuantizedBytes> quantize_folder(const std::string& model, const std::string& out, WeightCodes codes,
                                       bool embedding);

}  // namespace longhaul
