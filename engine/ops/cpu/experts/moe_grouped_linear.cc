#include "engine/ops/experts/moe_grouped_linear.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/text/text.h"
#include "engine/core/tensor/parallel_for.h"
#include "engine/ops/cpu/simd/kernels.h"
#include "engine/ops/device_ops.h"
#include "engine/ops/linear/gemm.h"
#include "engine/ops/linear/gemv.h"

namespace longhaul {
namespace {

using cpu::Index;
// Few sizes, so that few primitives are compiled: 1024 and 256 rows, and what is left over in steps of 16.
constexpr Index kPieceRows[] = {1024, 256};
constexpr Index kRestStep = 16;
constexpr Index kColumns = 1024;  // columns of one unit of work: splits a large expert over more threads

// `rows` rows of one expert, to be computed as `padded` of them.
struct Piece {
  Index expert, begin, rows, padded;
};

std::vector<Piece> pieces_of(Index expert, Index begin, Index end, Index rows_max) {
  std::vector<Piece> pieces;
  for (Index size : kPieceRows) {
    for (; size <= rows_max && end - begin >= size; begin += size) pieces.push_back({expert, begin, size, size});
  }
  const Index rest = end - begin;
  if (rest > 0) pieces.push_back({expert, begin, rest, (rest + kRestStep - 1) / kRestStep * kRestStep});
  return pieces;
}

std::string text_of(GroupedLinearShape s) {
  return format("grouped linear experts={} in={} out={}", s.experts, s.in, s.out);
}

// The number of rows.
Index check(GroupedLinearShape s, std::span<const std::int64_t> offsets) {
  LH_ASSERT(s.experts > 0 && s.in > 0 && s.out > 0, text_of(s));
  LH_ASSERT(static_cast<Index>(offsets.size()) == s.experts + 1 && offsets[0] == 0,
            format("{}: {} offsets", text_of(s), offsets.size()));
  for (std::size_t e = 1; e < offsets.size(); ++e) {
    LH_ASSERT(offsets[e] >= offsets[e - 1],
              format("{}: offset {} is {} after {}", text_of(s), e, offsets[e], offsets[e - 1]));
  }
  return offsets.back();
}

void check_view(GroupedLinearShape s, ConstView view, Index size, const char* name) {
  LH_ASSERT(view.size() >= size, format("{}: {} {} is smaller than {}", text_of(s), name, view.shape().text(), size));
}

// `rows` rows of `columns` elements from element `begin` on, `stride` apart, as a view; padded with zeros in scratch
// when `padded` is more.
ConstView padded_rows(const ComputeContext& lane, int slot, ConstView x, Index begin, Index rows, Index padded,
                      Index columns, Index stride) {
  const Index bytes = dtype_bytes(x.dtype());
  const auto* from = static_cast<const std::byte*>(x.data()) + begin * bytes;
  if (rows == padded) return ConstView(from, x.dtype(), Shape{(rows - 1) * stride + columns});
  std::byte* to = lane.scratch(slot, padded * columns * bytes);
  for (Index r = 0; r < rows; ++r) {
    std::memcpy(to + r * columns * bytes, from + r * stride * bytes, static_cast<std::size_t>(columns * bytes));
  }
  std::memset(to + rows * columns * bytes, 0, static_cast<std::size_t>((padded - rows) * columns * bytes));
  return ConstView(to, x.dtype(), Shape{padded, columns});
}

ConstView part(ConstView x, Index begin, Index size) {
  return ConstView(static_cast<const std::byte*>(x.data()) + begin * dtype_bytes(x.dtype()), x.dtype(), Shape{size});
}
View part(View x, Index begin, Index size) {
  return View(static_cast<std::byte*>(x.data()) + begin * dtype_bytes(x.dtype()), x.dtype(), Shape{size});
}

// A piece times columns [column, column + columns) of its expert's matrix.
struct Unit {
  Piece piece;
  Index column, columns;
};

// out[rows, n] = x[rows, k] op(W)[k, n]; W[expert] as stored: [n, k] when transposed (forward), [k, n] otherwise.
void product(const ComputeContext& lane, const Unit& unit, Index n, Index k, bool transposed, ConstView x,
             ConstView weights, View out) {
  const Piece& p = unit.piece;
  const Index bytes = dtype_bytes(out.dtype());
  const Index from = p.expert * n * k + (transposed ? unit.column * k : unit.column);
  const Index extent = transposed ? unit.columns * k : (k - 1) * n + unit.columns;
  const ConstView w = part(weights, from, extent);
  const Index place = p.begin * n + unit.column;
  if (transposed && (p.rows == 1 || (p.rows <= kGemvTokensMax && unit.columns == n))) {
    return gemv(lane, {p.rows, k, unit.columns}, part(x, p.begin * k, p.rows * k), w,
                part(out, place, p.rows * unit.columns));
  }
  GemmShape g{.m = p.padded, .n = unit.columns, .k = k};
  g.transpose_b = transposed;
  g.row_stride_b = transposed ? k : n;
  const ConstView a = padded_rows(lane, 0, x, p.begin * k, p.rows, p.padded, k, k);
  if (p.rows == p.padded) {
    g.row_stride_c = n;
    return gemm(lane, g, a, w, part(out, place, (p.rows - 1) * n + unit.columns));
  }
  std::byte* wide = lane.scratch(1, p.padded * unit.columns * bytes);
  gemm(lane, g, a, w, View(wide, out.dtype(), Shape{p.padded, unit.columns}));
  auto* to = static_cast<std::byte*>(out.data()) + place * bytes;
  for (Index r = 0; r < p.rows; ++r) {
    std::memcpy(to + r * n * bytes, wide + r * unit.columns * bytes, static_cast<std::size_t>(unit.columns * bytes));
  }
}

// Neighbouring units share a block of one matrix.
std::vector<Unit> units_of(GroupedLinearShape s, std::span<const std::int64_t> offsets, Index n) {
  std::vector<Unit> units;
  for (Index e = 0; e < s.experts; ++e) {
    const auto i = static_cast<std::size_t>(e);
    const std::vector<Piece> pieces = pieces_of(e, offsets[i], offsets[i + 1], 256);
    const Index rows = offsets[i + 1] - offsets[i], width = rows > 1 && rows <= kGemvTokensMax ? n : kColumns;
    for (Index column = 0; column < n; column += width) {
      for (const Piece& piece : pieces) units.push_back({piece, column, std::min(width, n - column)});
    }
  }
  return units;
}

// fn(lane, unit) for all units, each by one thread.
template <class F>
void for_units(const ComputeContext& context, Index units, const F& fn) {
  context.make_lanes();
  parallel_chunks(context, units, 1, [&](Index begin, Index end) {
    const ComputeContext& lane = context.lane(parallel_thread_index());
    for (Index i = begin; i < end; ++i) fn(lane, i);
  });
  context.between();  // lanes have nobody to inform
}

// Rows by each expert's matrix [out, in], or (backward) by its transpose.
void multiply(const ComputeContext& context, GroupedLinearShape shape, std::span<const std::int64_t> offsets,
              bool forward, ConstView from, ConstView weights, View to) {
  const Index rows = check(shape, offsets);
  const Index from_columns = forward ? shape.in : shape.out, to_columns = forward ? shape.out : shape.in;
  check_view(shape, from, rows * from_columns, forward ? "x" : "dy");
  check_view(shape, weights, shape.experts * shape.in * shape.out, "weights");
  check_view(shape, to, rows * to_columns, forward ? "y" : "dx");
  const std::vector<Unit> units = units_of(shape, offsets, to_columns);
  for_units(context, static_cast<Index>(units.size()), [&](const ComputeContext& lane, Index i) {
    product(lane, units[static_cast<std::size_t>(i)], to_columns, from_columns, forward, from, weights, to);
  });
}

}  // namespace

void grouped_linear_forward(const ComputeContext& context, GroupedLinearShape shape,
                            std::span<const std::int64_t> offsets, ConstView x, ConstView weights, View y) {
  if (const DeviceOps* device = context.device_ops())
    return device->grouped_linear_forward(shape, offsets, x, weights, y);
  multiply(context, shape, offsets, true, x, weights, y);
}

void grouped_linear_backward_input(const ComputeContext& context, GroupedLinearShape shape,
                                   std::span<const std::int64_t> offsets, ConstView dy, ConstView weights, View dx) {
  if (const DeviceOps* device = context.device_ops())
    return device->grouped_linear_backward_input(shape, offsets, dy, weights, dx);
  multiply(context, shape, offsets, false, dy, weights, dx);
}

namespace {

// Rows [row, row + height) of dW of one expert: the pieces of its tokens are added in order.
void weight_gradient(const ComputeContext& lane, GroupedLinearShape s, Index expert, Index begin, Index end, Index row,
                     Index height, ConstView dy, ConstView x, View dweights, bool accumulate) {
  const Index place = (expert * s.out + row) * s.in;
  const View target = part(dweights, place, height * s.in);
  if (begin == end && !accumulate) std::memset(target.data(), 0, static_cast<std::size_t>(target.bytes()));
  for (const Piece& p : pieces_of(expert, begin, end, 1024)) {
    const bool whole = p.rows == p.padded;
    GemmShape g{.m = height, .n = s.in, .k = p.padded};
    g.transpose_a = true;
    g.row_stride_a = whole ? s.out : height;
    g.beta = accumulate || p.begin != begin ? 1.0F : 0.0F;
    gemm(lane, g, padded_rows(lane, 0, dy, p.begin * s.out + row, p.rows, p.padded, height, s.out),
         padded_rows(lane, 1, x, p.begin * s.in, p.rows, p.padded, s.in, s.in), target);
  }
}

}  // namespace

void grouped_linear_backward_weight(const ComputeContext& context, GroupedLinearShape shape,
                                    std::span<const std::int64_t> offsets, ConstView dy, ConstView x, View dweights,
                                    bool accumulate) {
  if (const DeviceOps* device = context.device_ops())
    return device->grouped_linear_backward_weight(shape, offsets, dy, x, dweights, accumulate);
  const Index rows = check(shape, offsets);
  LH_ASSERT(dweights.dtype() == DType::f32, "gradients of weights are f32");
  check_view(shape, dy, rows * shape.out, "dy");
  check_view(shape, x, rows * shape.in, "x");
  check_view(shape, dweights, shape.experts * shape.in * shape.out, "dweights");
  const Index blocks = (shape.out + kColumns - 1) / kColumns;
  for_units(context, shape.experts * blocks, [&](const ComputeContext& lane, Index i) {
    const Index expert = i / blocks, row = i % blocks * kColumns;
    const auto e = static_cast<std::size_t>(expert);
    weight_gradient(lane, shape, expert, offsets[e], offsets[e + 1], row, std::min(kColumns, shape.out - row), dy, x,
                    dweights, accumulate);
  });
}

}  // namespace longhaul
