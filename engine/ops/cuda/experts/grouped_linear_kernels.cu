#include "engine/ops/cuda/common/row_access.h"
#include "engine/ops/cuda/experts/grouped_linear_kernels.h"
#include "engine/ops/cuda/experts/grouped_tiles.h"
#include "engine/ops/cuda/experts/tensor_grouped_kernels.h"

namespace longhaul::cuda {
namespace {

// Plain f32 arithmetic: a block makes [tile, tile] of a result, each thread 4 by 4 of it, 16 columns apart so that
// neighbours read neighbours.
constexpr int tile = 64, depth = 16, side = 16, threads = side * side, each = tile / side;
constexpr int row_length = tile + 4;
constexpr std::size_t shared_bytes = 2 * depth * row_length * sizeof(float);

struct Sums {
  float of[each][each] = {};
};
__device__ inline int row_here(int i) {
  return static_cast<int>(threadIdx.x) / side + i * side;
}
__device__ inline int column_here(int i) {
  return static_cast<int>(threadIdx.x) % side + i * side;
}
// a, b: [depth, tile] in shared memory; sums[i][j] += over d of a[d][row] b[d][column].
__device__ inline void add_products(Sums& sums, const float* a, const float* b) {
  for (int d = 0; d < depth; ++d) {
    float left[each], right[each];
    LONGHAUL_UNROLL
    for (int i = 0; i < each; ++i) left[i] = a[d * row_length + row_here(i)];
    LONGHAUL_UNROLL
    for (int i = 0; i < each; ++i) right[i] = b[d * row_length + column_here(i)];
    LONGHAUL_UNROLL
    for (int i = 0; i < each; ++i) {
      LONGHAUL_UNROLL
      for (int j = 0; j < each; ++j) sums.of[i][j] += left[i] * right[j];
    }
  }
}
// Into [depth, tile]: x[(first + i) * stride + d], of i < count and d < left; zeros otherwise.
template <class T>
__device__ inline void take_by_rows(const T* x, Index stride, Index count, Index left, float* to) {
  for (int i = static_cast<int>(threadIdx.x); i < depth * tile; i += threads) {
    const int d = i % depth, row = i / depth;
    to[d * row_length + row] = row < count && d < left ? to_float(x[row * stride + d]) : 0.0F;
  }
}
// Into [depth, tile]: x[d * stride + i].
template <class T>
__device__ inline void take_by_columns(const T* x, Index stride, Index count, Index left, float* to) {
  for (int i = static_cast<int>(threadIdx.x); i < depth * tile; i += threads) {
    const int d = i / tile, column = i % tile;
    to[d * row_length + column] = column < count && d < left ? to_float(x[d * stride + column]) : 0.0F;
  }
}

template <class T, class Out, bool transposed>
__global__ void __launch_bounds__(threads) product_kernel(GroupedProduct<T, Out> p) {
  const RowTile rows = find_row_tile(p.offsets, p.experts, tile, blockIdx.x);
  if (rows.expert < 0) return;
  auto* const a = reinterpret_cast<float*>(shared_memory());
  float* const b = a + depth * row_length;
  const Index column = static_cast<Index>(blockIdx.y) * tile, count = rows.end - rows.begin;
  const T* const weights = p.weights + rows.expert * p.n * p.k;
  Sums sums;
  for (Index d = 0; d < p.k; d += depth) {
    take_by_rows(p.x + rows.begin * p.k + d, p.k, count, p.k - d, a);
    if constexpr (transposed)
      take_by_rows(weights + column * p.k + d, p.k, p.n - column, p.k - d, b);
    else
      take_by_columns(weights + d * p.n + column, p.n, p.n - column, p.k - d, b);
    sync_block();
    add_products(sums, a, b);
    sync_block();
  }
  LONGHAUL_UNROLL
  for (int i = 0; i < each; ++i) {
    LONGHAUL_UNROLL
    for (int j = 0; j < each; ++j)
      if (row_here(i) < count && column + column_here(j) < p.n)
        p.out[(rows.begin + row_here(i)) * p.n + column + column_here(j)] = from_float<Out>(sums.of[i][j]);
  }
}

template <class T>
__global__ void __launch_bounds__(threads) weight_gradient_kernel(GroupedWeightGradient<T> p) {
  auto* const a = reinterpret_cast<float*>(shared_memory());
  float* const b = a + depth * row_length;
  const Index column = static_cast<Index>(blockIdx.x) * tile, row = static_cast<Index>(blockIdx.y) * tile,
              expert = blockIdx.z, end = p.offsets[expert + 1];
  Sums sums;
  for (Index r = p.offsets[expert]; r < end; r += depth) {
    take_by_columns(p.dy + r * p.out + row, p.out, p.out - row, end - r, a);
    take_by_columns(p.x + r * p.in + column, p.in, p.in - column, end - r, b);
    sync_block();
    add_products(sums, a, b);
    sync_block();
  }
  LONGHAUL_UNROLL
  for (int i = 0; i < each; ++i) {
    LONGHAUL_UNROLL
    for (int j = 0; j < each; ++j) {
      if (row + row_here(i) >= p.out || column + column_here(j) >= p.in) continue;
      float& to = p.dweights[(expert * p.out + row + row_here(i)) * p.in + column + column_here(j)];
      to = p.accumulate ? to + sums.of[i][j] : sums.of[i][j];
    }
  }
}

}  // namespace

template <class T, class Out>
void grouped_product(cudaStream_t stream, bool transposed, const GroupedProduct<T, Out>& p) {
  if constexpr (std::is_same_v<T, bf16>)
    if (tensor_grouped_knows(p)) return tensor_grouped_product(stream, transposed, p);
  const dim3 grid(static_cast<unsigned>(row_tiles_max(p.rows, p.experts, tile)), blocks_for(p.n, tile));
  launch("grouped_product", stream, transposed ? product_kernel<T, Out, true> : product_kernel<T, Out, false>, grid,
         dim3(threads), shared_bytes, p);
}

template <class T>
void grouped_weight_gradient(cudaStream_t stream, const GroupedWeightGradient<T>& p) {
  if constexpr (std::is_same_v<T, bf16>)
    if (tensor_grouped_knows(p)) return tensor_grouped_weight_gradient(stream, p);
  launch("grouped_weight_gradient", stream, weight_gradient_kernel<T>,
         dim3(blocks_for(p.in, tile), blocks_for(p.out, tile), static_cast<unsigned>(p.experts)), dim3(threads),
         shared_bytes, p);
}

template void grouped_product(cudaStream_t, bool, const GroupedProduct<float, float>&);
template void grouped_product(cudaStream_t, bool, const GroupedProduct<bf16, bf16>&);
template void grouped_product(cudaStream_t, bool, const GroupedProduct<bf16, float>&);
template void grouped_weight_gradient(cudaStream_t, const GroupedWeightGradient<float>&);
template void grouped_weight_gradient(cudaStream_t, const GroupedWeightGradient<bf16>&);

}  // namespace longhaul::cuda
