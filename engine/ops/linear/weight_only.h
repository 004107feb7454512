// Products with weights of eight and four bits, activations as they are: y = x W^T, where W is what its codes and
// scales stand for. Any number of tokens: few (kGemvTokensMax) read every code once, so the speed is that of memory;
// more (kPanelTokensMax) unpack each weight once for all of them; still more take a GEMM over weights unpacked block by
// block to x's type. (int8, and these numbers: gemv.h.)
//
// fp8: codes [out, in] u8 of E4M3 (number_formats.h), a scale for each output channel:
//   W[o, i] = scales[o] * decode(codes[o, i]). No code is NaN (0x7F, 0xFF): who reads a file looks first.
//
// int4: codes 0 .. 15 in groups of `group` neighbours of a row, the last one of a row may be shorter:
//   W[o, i] = scales[o, i / group] * (code(o, i) - zero(o, i / group))
//   packed [out, int4_row_bytes(in)] u8: input 2 j in the low four bits of byte j of a row, 2 j + 1 in the high ones;
//   rows end at whole words of 32 bits. That is `weight_packed` of compressed-tensors ("pack-quantized": words of 32
//   bits, little-endian, the first input lowest, code = value + 8).
//   scales [out, groups] f32 or bf16; zeros [out, groups] u8, or empty: 8, symmetric, as GPTQ and the W4A16 preset have
//   it. AWQ's files have zeros of their own.
#pragma once

#include <cstdint>
#include <span>

#include "engine/ops/linear/gemm.h"

namespace longhaul {

constexpr std::int64_t int4_row_bytes(std::int64_t in) {
  return (in + 7) / 8 * 4;
}
constexpr std::int64_t int4_groups(std::int64_t in, std::int64_t group) {
  return (in + group - 1) / group;
}

struct Int4View {
  ConstView packed, scales, zeros;
  std::int64_t group = 128;  // even, at least 2
};

// x[tokens, in], y[tokens, out], f32 or bf16 (y f32 where x is f32).
void linear_forward_fp8(const ComputeContext& context, LinearShape shape, ConstView x, ConstView codes,
                        std::span<const float> scales, View y);
void linear_forward_int4(const ComputeContext& context, LinearShape shape, ConstView x, const Int4View& weight, View y);

// What the codes of rows [begin, begin + rows) stand for: out [rows, in], f32 or bf16. On the processor.
void unpack_fp8(const ComputeContext& context, std::int64_t in, ConstView codes, std::span<const float> scales,
                std::int64_t begin, std::int64_t rows, View out);
void unpack_int4(const ComputeContext& context, std::int64_t in, const Int4View& weight, std::int64_t begin,
                 std::int64_t rows, View out);

// Weights [rows, columns] to codes, to nearest with ties to even, saturating. On the processor. False where a weight is
// not finite; `out` is then undefined.
//   fp8: scales[o] = max |W[o]| / 448; 1 where that is below 1e-30.
//   int4, symmetric: scale = max |W| of the group / 7.5, rounded to bf16 (bits of which scales holds); codes -8 .. 7 +
//   8, so that no error is above about half a scale. 1 where that is below 1e-30.
bool quantize_fp8(std::int64_t rows, std::int64_t columns, std::span<const float> weight, std::span<std::uint8_t> codes,
                  std::span<float> scales);
bool quantize_int4(std::int64_t rows, std::int64_t columns, std::int64_t group, std::span<const float> weight,
                   std::span<std::uint8_t> packed, std::span<bf16> scales);

}  // namespace longhaul
