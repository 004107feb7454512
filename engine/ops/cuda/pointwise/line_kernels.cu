#include "engine/ops/cuda/common/row_access.h"
#include "engine/ops/cuda/pointwise/line_kernels.h"

namespace longhaul::cuda {
namespace {

constexpr int line_threads = 256;
constexpr int column_block_threads = 512, column_lanes = column_block_threads / warp_size;

__device__ inline void put_sum(double sum, bool accumulate, float* to) {
  const float rounded = static_cast<float>(sum);
  *to = accumulate ? *to + rounded : rounded;
}

// A block for each row.
template <int n>
__global__ void __launch_bounds__(row_threads_max) row_dots_kernel(LineDots p) {
  const Index row = blockIdx.x, at = row * p.columns, step = static_cast<Index>(blockDim.x) * n;
  double sum = 0;
  for (Index i = static_cast<Index>(threadIdx.x) * n; i < p.columns; i += step) {
    float a[n], b[n];
    load<n>(p.a + at + i, a), load<n>(p.b + at + i, b);
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) sum += static_cast<double>(a[j]) * static_cast<double>(b[j]);
  }
  sum = sum_over_block(sum, reinterpret_cast<double*>(shared_memory()));
  if (threadIdx.x == 0) put_sum(sum, p.accumulate, p.out + row);
}

// A warp has neighbouring columns and every sixteenth row; the sums of a block's warps are added in their order.
__global__ void __launch_bounds__(column_block_threads) column_dots_kernel(LineDots p) {
  auto* const sums = reinterpret_cast<double*>(shared_memory());
  const int thread = static_cast<int>(threadIdx.x) % warp_size, lane = static_cast<int>(threadIdx.x) / warp_size;
  const Index column = static_cast<Index>(blockIdx.x) * warp_size + thread;
  double sum = 0;
  if (column < p.columns)
    for (Index row = lane; row < p.rows; row += column_lanes)
      sum += static_cast<double>(p.a[row * p.columns + column]) * static_cast<double>(p.b[row * p.columns + column]);
  sums[threadIdx.x] = sum;
  sync_block();
  if (lane != 0 || column >= p.columns) return;
  for (int i = 1; i < column_lanes; ++i) sum += sums[i * warp_size + thread];
  put_sum(sum, p.accumulate, p.out + column);
}

template <int n, bool of_rows>
__global__ void __launch_bounds__(line_threads)
    scale_lines_kernel(Index rows, Index columns, const float* factors, float* matrix) {
  const Index i = (static_cast<Index>(blockIdx.x) * line_threads + threadIdx.x) * n;
  if (i >= rows * columns) return;
  const Index row = i / columns, column = i % columns;
  float v[n];
  load<n>(matrix + i, v);
  LONGHAUL_UNROLL
  for (int j = 0; j < n; ++j) v[j] *= factors[of_rows ? row : column + j];
  store<n>(v, matrix + i);
}

template <bool of_rows>
void start_scaling(const char* name, cudaStream_t stream, Index rows, Index columns, const float* factors,
                   float* matrix) {
  with_width<float>(columns, {matrix}, [&](auto width) {
    constexpr int n = decltype(width)::value;
    launch(name, stream, scale_lines_kernel<n, of_rows>, dim3(blocks_for(rows * columns, line_threads * n)),
           dim3(line_threads), 0, rows, columns, factors, matrix);
  });
}

__global__ void __launch_bounds__(line_threads)
    divide_by_roots_kernel(Index n, const float* x, const float* squares, bool accumulate, float* out) {
  const Index i = static_cast<Index>(blockIdx.x) * line_threads + threadIdx.x;
  if (i >= n) return;
  const float quotient = x[i] / sqrtf(squares[i]);
  out[i] = accumulate ? out[i] + quotient : quotient;
}

}  // namespace

void dots_of_rows(cudaStream_t stream, const LineDots& p) {
  with_width<float>(p.columns, {p.a, p.b}, [&](auto width) {
    constexpr int n = decltype(width)::value;
    launch("dots_of_rows", stream, row_dots_kernel<n>, dim3(static_cast<unsigned>(p.rows)),
           dim3(threads_of_row(p.columns, n)), row_threads_max / warp_size * sizeof(double), p);
  });
}
void dots_of_columns(cudaStream_t stream, const LineDots& p) {
  launch("dots_of_columns", stream, column_dots_kernel, dim3(blocks_for(p.columns, warp_size)),
         dim3(column_block_threads), column_block_threads * sizeof(double), p);
}
void scale_rows(cudaStream_t stream, Index rows, Index columns, const float* factors, float* matrix) {
  start_scaling<true>("scale_rows", stream, rows, columns, factors, matrix);
}
void scale_columns(cudaStream_t stream, Index rows, Index columns, const float* factors, float* matrix) {
  start_scaling<false>("scale_columns", stream, rows, columns, factors, matrix);
}
void divide_by_roots(cudaStream_t stream, Index n, const float* x, const float* squares, bool accumulate, float* out) {
  launch("divide_by_roots", stream, divide_by_roots_kernel, dim3(blocks_for(n, line_threads)), dim3(line_threads), 0, n,
         x, squares, accumulate, out);
}

}  // namespace longhaul::cuda
