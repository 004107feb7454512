// Products of numbers of eight bits, as tensor cores from Hopper on compute them: operands are codes (number_formats.h)
// and scales, sums and results are f32 or bf16. What a code and its scale stand for is what quantize_blocks.h rounds
// to, with the same bits; a product of both differs in the order of its sums alone.
//
// Both operands lie with what is summed over along their rows: that is the one order that Hopper has (TN, in
// cuBLASLt's terms), and for backward products a cast transposes. Layouts of scales are cuBLASLt's (cuBLAS 13, 3.1.4).
// Nothing here waits for a device.
#pragma once

#include <cstdint>
#include <string>

#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/tensor.h"
#include "engine/ops/linear/number_formats.h"

namespace longhaul {

enum class Fp8Scales : std::uint8_t {
  tensor,   // one f32 for all
  rows,     // f32 for 128 neighbours of a row; of all rows' first blocks first: [blocks, rows]
  squares,  // f32 for 128 x 128; [ceil(rows / 128), blocks], blocks rounded up to a multiple of four
  mx,       // E8M0 for 32 neighbours of a row; in tiles of 128 rows and four blocks, those outside are zero
};
const char* to_string(Fp8Scales scales);

// Which of them a device multiplies.
struct Fp8Support {
  bool tensor = false;
  bool blocks = false;  // rows and squares, of which one operand has rows
  bool mx = false;
  std::string why_not;  // where one is missing, in words
  bool has(Fp8Scales scales) const {
    return scales == Fp8Scales::tensor ? tensor : scales == Fp8Scales::mx ? mx : blocks;
  }
};
// Of the context's device. Processors compute everything below, as what devices are held to; they are no faster by it
// and offer none.
Fp8Support fp8_support(const ComputeContext& context);

// Codes [rows, columns]; a product sums over the columns. Both are multiples of 16.
struct Fp8Matrix {
  std::int64_t rows = 0, columns = 0;
  NumberFormat format = NumberFormat::e4m3;  // or e5m2
  Fp8Scales scales = Fp8Scales::tensor;

  std::int64_t scale_bytes() const;
};
// Where the scale of an element lies: an index of floats; of bytes, where scales are mx.
LH_HOST_DEVICE constexpr std::int64_t fp8_scale_place(Fp8Scales scales, std::int64_t rows, std::int64_t columns,
                                                      std::int64_t row, std::int64_t column) {
  switch (scales) {
    case Fp8Scales::tensor: return 0;
    case Fp8Scales::rows: return column / 128 * rows + row;
    case Fp8Scales::squares: return row / 128 * (((columns + 127) / 128 + 3) / 4 * 4) + column / 128;
    case Fp8Scales::mx: break;
  }
  const std::int64_t tiles = (columns / 32 + (columns % 32 != 0) + 3) / 4, block = column / 32;
  return (row / 128 * tiles + block / 4) * 512 + row % 32 * 16 + row % 128 / 32 * 4 + block % 4;
}

struct Fp8Cast {
  Fp8Matrix to;
  bool transposed = false;  // x lies as [columns, rows]
  ScaleRounding rounding = ScaleRounding::up;
};
// x f32 or bf16. codes: u8. scales: u8, Fp8Matrix::scale_bytes() of them, at a multiple of 16; of a tensor they are
// read, of blocks written.
void fp8_cast(const ComputeContext& context, const Fp8Cast& how, ConstView x, View codes, View scales);

// amax[0] = the larger of amax[0] and |x|, f32; what is no number stays.
void fp8_keep_amax(const ComputeContext& context, ConstView x, View amax);
// scale[0] = tensor_scale(format, amax[0], margin).
void fp8_tensor_scale(const ComputeContext& context, NumberFormat format, int margin, ConstView amax, View scale);

// C [m, n] = A [m, k] B [n, k]^T (+ bias [n]) + beta C.
struct Fp8Product {
  std::int64_t m = 0, n = 0, k = 0;
  NumberFormat a = NumberFormat::e4m3, b = NumberFormat::e4m3;  // not both e5m2
  Fp8Scales scales_a = Fp8Scales::tensor, scales_b = Fp8Scales::tensor;
  float beta = 0.0F;
  bool fast = false;  // sums may stay in the tensor cores' own precision (some 14 bits); scales of tensors only
};
struct Fp8Operands {
  ConstView a, scales_a, b, scales_b;  // u8
};
// c: f32 or bf16; bias of its type, or empty.
void fp8_product(const ComputeContext& context, const Fp8Product& shape, const Fp8Operands& operands, View c,
                 ConstView bias = {});
// Why the device would not compute it; empty: it would. Looks at sizes and at where memory begins, not into it.
std::string fp8_refusal(const ComputeContext& context, const Fp8Product& shape, const Fp8Operands& operands,
                        ConstView c);

}  // namespace longhaul
