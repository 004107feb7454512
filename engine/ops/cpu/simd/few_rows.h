// What products with few rows of activations share on the processor, and their form for many: see gemv.h and
// weight_only.h.
#pragma once

#include <algorithm>

#include "engine/core/tensor/parallel_for.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cpu/simd/kernels.h"
#include "engine/ops/linear/gemv.h"

namespace longhaul::cpu {

// x in f32 with rows padded to 16, and a place for the f32 result: both in scratch.
struct StagedRows {
  float *x, *y;
  Index k_padded;
};
StagedRows stage_rows(const ComputeContext& context, LinearShape shape, ConstView x);
void unstage_rows(const ComputeContext& context, LinearShape shape, const float* result, View y);

// product(staged, begin, end) writes rows [begin, end) of the weight's products into staged.y [tokens, out].
template <class F>
void few_rows_product(const ComputeContext& context, LinearShape shape, ConstView x, View y, const F& product) {
  const StagedRows staged = stage_rows(context, shape, x);
  const Index grain = std::max<Index>(8, 65536 / std::max<Index>(1, shape.in));
  parallel_for(context, shape.out, grain, [&](Index begin, Index end) { product(staged, begin, end); });
  unstage_rows(context, shape, staged.y, y);
}

// More rows of x than one pass takes: a panel of a few rows of the weight is unpacked to f32 once, where a processor's
// own cache holds it, and multiplied with all of them. unpack(begin, rows, panel [rows, in]); scales of the rows, after
// the sums, or null: the sums, and their order, are those of fewer rows of x.
inline constexpr Index kPanelRows = 12;
template <class F>
void panel_product(const ComputeContext& context, LinearShape shape, ConstView x, View y, const float* scales,
                   const F& unpack) {
  const StagedRows staged = stage_rows(context, shape, x);
  const Index panel = kPanelRows * staged.k_padded;
  auto* const panels = reinterpret_cast<float*>(context.scratch(1, context.threads() * panel * 4));
  parallel_for(context, shape.out, kPanelRows, [&](Index begin, Index end) {
    float* const mine = panels + parallel_thread_index() * panel;
    for (Index row = begin; row < end; row += kPanelRows) {
      const Index rows = std::min(kPanelRows, end - row);
      unpack(row, rows, mine);
      kernels(context).f32.gemv(staged.x, staged.k_padded, shape.tokens, mine, shape.in, 0, rows, staged.y + row,
                                shape.out);
      if (scales == nullptr) continue;
      for (Index t = 0; t < shape.tokens; ++t)
        for (Index r = 0; r < rows; ++r) staged.y[t * shape.out + row + r] *= scales[row + r];
    }
  });
  unstage_rows(context, shape, staged.y, y);
}

// unpack(begin, rows, out) gives rows of the weight in x's type; a block of them, then a GEMM into that block's columns
// of y.
template <class F>
void unpacked_product(const ComputeContext& context, LinearShape shape, ConstView x, View y, const F& unpack) {
  const Index block = std::min<Index>(shape.out, 512);
  std::byte* const weights = context.scratch(0, block * shape.in * dtype_bytes(x.dtype()));
  for (Index begin = 0; begin < shape.out; begin += block) {
    const Index n = std::min(block, shape.out - begin);
    const View unpacked(weights, x.dtype(), Shape{n, shape.in});
    unpack(begin, n, unpacked);
    GemmShape g{.m = shape.tokens, .n = n, .k = shape.in};
    g.transpose_b = true;
    g.row_stride_c = shape.out;
    const View columns(static_cast<std::byte*>(y.data()) + begin * dtype_bytes(y.dtype()), y.dtype(),
                       Shape{(shape.tokens - 1) * shape.out + n});
    gemm(context, g, x, unpacked, columns);
  }
}

}  // namespace longhaul::cpu
