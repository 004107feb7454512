#include "engine/ops/cpu/gemm/packed_gemm.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "engine/core/tensor/parallel_for.h"
#include "engine/ops/cpu/gemm/packed_tiles.h"

namespace longhaul::cpu {
namespace {

using Index = std::int64_t;

// Of C, computed at a time by all threads, so large that packing, which costs about as much as 8 products an element
// and is done again for each block beside or below, is about 1 % of it; and so small that a packed B stays in the
// second cache. Multiples of all panels' widths.
constexpr Index kBlockRows = 1152, kBlockColumns = 768;
constexpr Index kUnitColumns = 192;  // of a block, that a thread takes at a time: a multiple of all widths

Index round_up(Index n, Index unit) {
  return (n + unit - 1) / unit * unit;
}

// The blocks of one dimension: all of about the same size.
Index block_size(Index n, Index most, Index unit) {
  const Index blocks = (n + most - 1) / most;
  return std::min(most / unit * unit, round_up((n + blocks - 1) / blocks, unit));
}

struct Blocks {
  Index rows, columns, depth;  // of a block of C, and along k
  bool direct;                 // sums are written into C itself
  Index a_floats() const { return rows * depth; }
  Index b_floats() const { return columns * depth; }
  Index sum_floats() const { return direct ? 0 : rows * columns; }
  Index bytes() const { return (a_floats() + b_floats() + sum_floats()) * static_cast<Index>(sizeof(float)); }
};

Blocks blocks_of(const PackedTiles& tiles, const GemmCase& c) {
  Blocks b{};
  b.rows = block_size(c.m, kBlockRows, tiles.rows), b.columns = block_size(c.n, kBlockColumns, tiles.columns);
  b.depth = std::min(tiles.depth, c.k);
  b.direct = c.c == DType::f32 && c.alpha == 1.0F && (c.beta == 0.0F || c.beta == 1.0F);
  return b;
}

// An operand seen as rows of op(A), or columns of op(B), which are packed alike.
template <class T>
struct Operand {
  const T* data;
  Index stride;
  bool along_k;  // a row (column) lies along k
  const T* at(Index row, Index p) const { return data + (along_k ? row * stride + p : p * stride + row); }
};

template <class T, class C>
class Product {
 public:
  Product(const ComputeContext& context, const GemmCase& c, const T* a, const T* b, C* out)
      : context_(context),
        tiles_(packed_tiles(context)),
        case_(c),
        blocks_(blocks_of(tiles_, c)),
        a_{a, c.row_stride_a, !c.transpose_a},
        b_{b, c.row_stride_b, c.transpose_b},
        out_(out),
        packed_a_(reinterpret_cast<float*>(context.scratch(3, blocks_.bytes()))),
        packed_b_(packed_a_ + blocks_.a_floats()),
        sum_(packed_b_ + blocks_.b_floats()) {}

  void run() const {
    for (Index j = 0; j < case_.n; j += blocks_.columns)
      for (Index i = 0; i < case_.m; i += blocks_.rows) block(i, j);
  }

 private:
  void block(Index row, Index column) const {
    const Index m = std::min(blocks_.rows, case_.m - row), n = std::min(blocks_.columns, case_.n - column);
    for (Index p = 0; p < case_.k; p += tiles_.depth) {
      const Index depth = std::min(tiles_.depth, case_.k - p);
      pack(row, m, column, n, p, depth);
      multiply(row, m, column, n, p, depth);
    }
  }

  void pack(Index row, Index m, Index column, Index n, Index p, Index depth) const {
    const Index panels_a = (m + tiles_.rows - 1) / tiles_.rows, panels_b = (n + tiles_.columns - 1) / tiles_.columns;
    parallel_chunks(context_, panels_a + panels_b, 4, [&](Index begin, Index end) {
      for (Index panel = begin; panel < end; ++panel) {
        if (panel < panels_b) {
          const Index j = panel * tiles_.columns;
          tiles_.pack_b<T>()(b_.at(column + j, p), b_.stride, b_.along_k, std::min(tiles_.columns, n - j), depth,
                             packed_b_ + j * depth);
        } else {
          const Index i = (panel - panels_b) * tiles_.rows;
          tiles_.pack_a<T>()(a_.at(row + i, p), a_.stride, a_.along_k, std::min(tiles_.rows, m - i), depth,
                             packed_a_ + i * depth);
        }
      }
    });
  }

  void multiply(Index row, Index m, Index column, Index n, Index p, Index depth) const {
    const Index units_m = (m + tiles_.rows_at_once - 1) / tiles_.rows_at_once;
    const Index units_n = (n + kUnitColumns - 1) / kUnitColumns;
    parallel_chunks(context_, units_m * units_n, 1, [&](Index begin, Index end) {
      for (Index unit = begin; unit < end; ++unit) {
        const Index i = unit / units_n * tiles_.rows_at_once, j = unit % units_n * kUnitColumns;
        const Index rows = std::min(tiles_.rows_at_once, m - i), columns = std::min(kUnitColumns, n - j);
        C* const c = out_ + (row + i) * case_.row_stride_c + column + j;
        const float* const a = packed_a_ + i * depth;
        const float* const b = packed_b_ + j * depth;
        if constexpr (std::is_same_v<C, float>) {
          if (blocks_.direct) {
            tiles_.multiply(rows, columns, depth, a, b, c, case_.row_stride_c, p > 0 || case_.beta != 0.0F);
            continue;
          }
        }
        float* const sum = sum_ + i * blocks_.columns + j;
        tiles_.multiply(rows, columns, depth, a, b, sum, blocks_.columns, p > 0);
        if (p + depth == case_.k)
          tiles_.finish<C>()(rows, columns, sum, blocks_.columns, case_.alpha, case_.beta, c, case_.row_stride_c);
      }
    });
  }

  const ComputeContext& context_;
  const PackedTiles& tiles_;
  const GemmCase& case_;
  const Blocks blocks_;
  const Operand<T> a_, b_;
  C* const out_;
  float *const packed_a_, *const packed_b_, *const sum_;
};

// Nothing to add up: beta C.
template <class C>
void without_products(const PackedTiles& tiles, const GemmCase& c, C* out) {
  const std::vector<float> zeros(static_cast<std::size_t>(c.n), 0.0F);
  tiles.finish<C>()(c.m, c.n, zeros.data(), 0, c.alpha, c.beta, out, c.row_stride_c);
}

template <class T, class C>
void run(const ComputeContext& context, const GemmCase& c, ConstView a, ConstView b, View out) {
  if (c.k == 0) return without_products(packed_tiles(context), c, out.as<C>());
  Product<T, C>(context, c, a.as<T>(), b.as<T>(), out.as<C>()).run();
}

}  // namespace

std::int64_t packed_gemm_scratch(const ComputeContext& context, const GemmCase& c) {
  return blocks_of(packed_tiles(context), c).bytes();
}

void packed_gemm(const ComputeContext& context, const GemmCase& c, ConstView a, ConstView b, View out) {
  if (c.ab == DType::f32) return run<float, float>(context, c, a, b, out);
  if (c.c == DType::f32) return run<bf16, float>(context, c, a, b, out);
  run<bf16, bf16>(context, c, a, b, out);
}

}  // namespace longhaul::cpu
