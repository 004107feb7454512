// What the packed product (packed_gemm.h) has of each instruction level: its register tile, and how operands are packed
// for it. The text is packed_tiles.inc, compiled once for each level.
#pragma once

#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/dtype.h"

namespace longhaul::cpu {

// A packed panel holds `width` rows of op(A), or `width` columns of op(B), in f32: panel[p * width + i] is element p
// along k of row or column i. What a panel has beyond `count` is finite or a copy of what it has, and is never stored.
template <class T>
using PackPanel = void (*)(const T* from, std::int64_t stride, bool along_k, std::int64_t count, std::int64_t depth,
                           float* panel);

// The end of a block of C: c = alpha * sum + beta * c, rounded once to c's type.
template <class T>
using FinishBlock = void (*)(std::int64_t rows, std::int64_t columns, const float* sum, std::int64_t sum_stride,
                             float alpha, float beta, T* c, std::int64_t stride);

struct PackedTiles {
  const char* name;
  std::int64_t rows, columns;  // of the register tile: widths of the panels of A and B
  std::int64_t depth;          // along k that is packed at a time
  std::int64_t rows_at_once;   // of A, whose panels lie in the second cache meanwhile; a multiple of `rows`
  // from: the panel's first element. along_k: its rows (columns) lie one after the other along k, `stride` apart; else
  // its elements of one k lie side by side, and those of the next k are `stride` further.
  PackPanel<float> pack_a_f32, pack_b_f32;
  PackPanel<bf16> pack_a_bf16, pack_b_bf16;
  // c[m][n] = or += product of packed panels; the sum of an element runs along k, one product after the other.
  void (*multiply)(std::int64_t m, std::int64_t n, std::int64_t depth, const float* a, const float* b, float* c,
                   std::int64_t stride, bool accumulate);
  FinishBlock<float> finish_f32;
  FinishBlock<bf16> finish_bf16;

  template <class T>
  PackPanel<T> pack_a() const;
  template <class T>
  PackPanel<T> pack_b() const;
  template <class T>
  FinishBlock<T> finish() const;
};
template <>
inline PackPanel<float> PackedTiles::pack_a<float>() const {
  return pack_a_f32;
}
template <>
inline PackPanel<bf16> PackedTiles::pack_a<bf16>() const {
  return pack_a_bf16;
}
template <>
inline PackPanel<float> PackedTiles::pack_b<float>() const {
  return pack_b_f32;
}
template <>
inline PackPanel<bf16> PackedTiles::pack_b<bf16>() const {
  return pack_b_bf16;
}
template <>
inline FinishBlock<float> PackedTiles::finish<float>() const {
  return finish_f32;
}
template <>
inline FinishBlock<bf16> PackedTiles::finish<bf16>() const {
  return finish_bf16;
}

// Of the level whose kernels the context uses (kernels.h), so that a cap on those holds here as well.
const PackedTiles& packed_tiles(const ComputeContext& context);

// Those that were compiled in; nullptr where the machine's family does not have them.
const PackedTiles* packed_tiles_portable();  // NEON on Arm
const PackedTiles* packed_tiles_avx2();
const PackedTiles* packed_tiles_avx512();

}  // namespace longhaul::cpu
