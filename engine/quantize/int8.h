// Weight-only int8, symmetric, one scale per output channel: W[o, i] ~ scale[o] * q[o, i], scale[o] = max_i |W[o, i]| /
// 127, q = round to nearest even, in -127..127 (-128 is never used, so that -W has -q). The error of a weight is at
// most scale / 2.
//
// Stored in safetensors as "<name>.weight" I8 [out, in] and "<name>.weight_scale" F32 [out, 1], and named in
// config.json as `quantization_config` in the form of compressed-tensors ("int-quantized", strategy "channel"), so that
// other tools know it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

struct Int8Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<std::int8_t> q;  // [rows, columns]
  std::vector<float> scales;   // [rows]; 1 for a row of zeros
};

// weight[rows, columns]. ErrorCode::corrupt for a weight that is not finite.
Result<Int8Matrix> quantize_int8(std::span<const float> weight, std::int64_t rows, std::int64_t columns);

}  // namespace longhaul
