#include <algorithm>

#include "engine/ops/cuda/common/row_access.h"
#include "engine/ops/cuda/common/row_parts.h"

namespace longhaul::cuda {
namespace {

constexpr int column_threads = 256, lanes = column_threads / warp_size;

// A warp has neighbouring columns and every sixteenth part; the sums of the warps are added in their order.
constexpr int add_threads = 512, add_lanes = add_threads / warp_size;
constexpr int parts_ahead =
    9;  // loads under way at once: with all lanes' the parts of one block for each multiprocessor

__global__ void __launch_bounds__(add_threads)
    add_parts_kernel(const float* parts, Index count, Index columns, Index stride, float* to, bool accumulate) {
  float* const sums = reinterpret_cast<float*>(shared_memory());
  const Index column = static_cast<Index>(blockIdx.x) * warp_size + threadIdx.x % warp_size;
  const int lane = static_cast<int>(threadIdx.x) / warp_size;
  float sum = 0.0F, before = 0.0F;
  if (lane == 0 && column < columns && accumulate) before = to[column];
  if (column < columns)
    for (Index i = lane; i < count; i += parts_ahead * add_lanes) {
      float part[parts_ahead];
      LONGHAUL_UNROLL
      for (int j = 0; j < parts_ahead; ++j)
        part[j] = i + j * add_lanes < count ? parts[(i + j * add_lanes) * stride + column] : 0.0F;
      LONGHAUL_UNROLL
      for (int j = 0; j < parts_ahead; ++j) sum += part[j];
    }
  sums[threadIdx.x] = sum;
  sync_block();
  if (lane != 0 || column >= columns) return;
  for (int j = 1; j < add_lanes; ++j) sum += sums[j * warp_size + static_cast<int>(threadIdx.x)];
  to[column] = before + sum;
}

// A warp has a pack of columns for each of its threads; warp w of block y the rows y lanes + w, and on by as many as
// there are warps. The sums of a block's warps are added in their order.
template <class T, int n>
__global__ void __launch_bounds__(column_threads)
    column_sums_kernel(Index rows, Index columns, const T* x, float* parts) {
  float* const sums = reinterpret_cast<float*>(shared_memory());  // [lanes, warp_size, n]
  const int thread = static_cast<int>(threadIdx.x) % warp_size, lane = static_cast<int>(threadIdx.x) / warp_size;
  const Index column = (static_cast<Index>(blockIdx.x) * warp_size + thread) * n;
  const Index step = static_cast<Index>(gridDim.y) * lanes;
  constexpr int ahead = 4;
  float sum[n] = {};
  if (column < columns) {
    Index row = static_cast<Index>(blockIdx.y) * lanes + lane;
    for (; row + (ahead - 1) * step < rows; row += ahead * step) {
      float v[ahead][n];
      LONGHAUL_UNROLL
      for (int i = 0; i < ahead; ++i) load<n>(x + (row + i * step) * columns + column, v[i]);
      LONGHAUL_UNROLL
      for (int i = 0; i < ahead; ++i) LONGHAUL_UNROLL
      for (int j = 0; j < n; ++j) sum[j] += v[i][j];
    }
    for (; row < rows; row += step) {
      float v[n];
      load<n>(x + row * columns + column, v);
      LONGHAUL_UNROLL
      for (int j = 0; j < n; ++j) sum[j] += v[j];
    }
  }
  LONGHAUL_UNROLL
  for (int j = 0; j < n; ++j) sums[(lane * n + j) * warp_size + thread] = sum[j];
  sync_block();
  if (lane != 0 || column >= columns) return;
  LONGHAUL_UNROLL
  for (int j = 0; j < n; ++j) {
    for (int i = 1; i < lanes; ++i) sum[j] += sums[(i * n + j) * warp_size + thread];
    parts[blockIdx.y * columns + column + j] = sum[j];
  }
}

}  // namespace

void add_parts(cudaStream_t stream, Index count, Index columns, Index stride, const float* parts, float* to,
               bool accumulate) {
  launch("add_parts", stream, add_parts_kernel, dim3(blocks_for(columns, warp_size)), dim3(add_threads),
         add_threads * sizeof(float), parts, count, columns, stride, to, accumulate);
}

Index column_sum_blocks(Index rows) {
  return std::min<Index>((rows + lanes - 1) / lanes, row_part_blocks / 2);
}
template <class T>
void column_sums(cudaStream_t stream, Index rows, Index columns, const T* x, float* parts, float* to, bool accumulate) {
  const Index blocks = column_sum_blocks(rows);
  with_width<T>(columns, {x}, [&](auto width) {
    constexpr int n = decltype(width)::value;
    launch("column_sums", stream, column_sums_kernel<T, n>,
           dim3(blocks_for(columns, warp_size * n), static_cast<unsigned>(blocks)), dim3(column_threads),
           column_threads * n * sizeof(float), rows, columns, x, parts);
  });
  add_parts(stream, blocks, columns, columns, parts, to, accumulate);
}
template void column_sums(cudaStream_t, Index, Index, const float*, float*, float*, bool);
template void column_sums(cudaStream_t, Index, Index, const bf16*, float*, float*, bool);

}  // namespace longhaul::cuda
