#include <algorithm>

#include "engine/ops/cuda/row_access.h"
#include "engine/ops/cuda/row_parts.h"

namespace longhaul::cuda {
namespace {

constexpr int column_threads = 256;

__global__ void __launch_bounds__(column_threads)
    add_parts_kernel(const float* parts, Index count, Index columns, Index stride, float* to, bool accumulate) {
  const Index column = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  float sum = 0.0F;
  for (Index i = 0; i < count; ++i) sum += parts[i * stride + column];
  to[column] = accumulate ? to[column] + sum : sum;
}

// Block y adds up every gridDim.y-th row, each thread for a column.
template <class T>
__global__ void __launch_bounds__(column_threads)
    column_sums_kernel(Index rows, Index columns, const T* x, float* parts) {
  const Index column = static_cast<Index>(blockIdx.x) * column_threads + threadIdx.x;
  if (column >= columns) return;
  float sum = 0.0F;
  for (Index row = blockIdx.y; row < rows; row += gridDim.y) sum += to_float(x[row * columns + column]);
  parts[blockIdx.y * columns + column] = sum;
}

}  // namespace

void add_parts(cudaStream_t stream, Index count, Index columns, Index stride, const float* parts, float* to,
               bool accumulate) {
  launch("add_parts", stream, add_parts_kernel, dim3(blocks_for(columns, column_threads)), dim3(column_threads), 0,
         parts, count, columns, stride, to, accumulate);
}

Index column_sum_blocks(Index rows) {
  return std::min<Index>(rows, 64);
}
template <class T>
void column_sums(cudaStream_t stream, Index rows, Index columns, const T* x, float* parts, float* to, bool accumulate) {
  const Index blocks = column_sum_blocks(rows);
  launch("column_sums", stream, column_sums_kernel<T>,
         dim3(blocks_for(columns, column_threads), static_cast<unsigned>(blocks)), dim3(column_threads), 0, rows,
         columns, x, parts);
  add_parts(stream, blocks, columns, columns, parts, to, accumulate);
}
template void column_sums(cudaStream_t, Index, Index, const float*, float*, float*, bool);
template void column_sums(cudaStream_t, Index, Index, const bf16*, float*, float*, bool);

}  // namespace longhaul::cuda
