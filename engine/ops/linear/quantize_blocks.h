// Fake quantisation: every element becomes the number that a format of few bits and a scale can hold, written in the
// type that products are computed in. A product of such elements, accumulated in f32, is what hardware with these
// formats computes, but for the order of its sums. (With f32 scales of whole tensors and bf16 elements the value is
// rounded once more, to bf16: at most 2^-9 of it, beside at least 2^-5 of the format.)
//
// Scales are of a whole tensor (f32), or of blocks (powers of two). NaN or infinity in a block makes all of it NaN, as
// its scale is: number_formats.h. Results do not depend on the number of threads or the instruction set.
#pragma once

#include <cstdint>

#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/tensor.h"
#include "engine/ops/linear/number_formats.h"

namespace longhaul {

struct BlockQuantization {
  NumberFormat format = NumberFormat::e4m3;
  std::int64_t rows = 1, columns = 32;  // of a block; columns: 1 or a multiple of 16
  ScaleRounding rounding = ScaleRounding::up;
};

// What it did to the elements. Sums over disjoint parts of a tensor add up to those of the whole.
struct QuantizationSums {
  double signal = 0, noise = 0;  // of squares: elements, and what was added to them
  double values = 0;             // that were not zero
  double flushed = 0;            // of these: became zero
  double saturated = 0;          // of these: lay above the format's largest number
  QuantizationSums& operator+=(const QuantizationSums& o) {
    signal += o.signal, noise += o.noise, values += o.values, flushed += o.flushed, saturated += o.saturated;
    return *this;
  }
};

// x [rows, columns] in blocks from its first element on; those at the end may be smaller. x f32 or bf16, y of its type,
// may be x. sums: added to; null: not wanted.
void quantize_blocks(const ComputeContext& context, std::int64_t rows, std::int64_t columns,
                     const BlockQuantization& how, ConstView x, View y, QuantizationSums* sums = nullptr);

// y = scale * (x / scale as a number of the format).
void quantize_tensor(const ComputeContext& context, NumberFormat format, float scale, ConstView x, View y,
                     QuantizationSums* sums = nullptr);

// The largest |x|; NaN where there is one.
float largest_magnitude(const ComputeContext& context, ConstView x);

}  // namespace longhaul
