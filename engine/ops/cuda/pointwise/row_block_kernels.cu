#include <type_traits>

#include "engine/ops/cuda/common/row_access.h"
#include "engine/ops/cuda/pointwise/row_block_kernels.h"

namespace longhaul::cuda {
namespace {

constexpr int block_threads = 256;

template <class T, class S>
struct RowBlock {
  Index rows, columns, from_stride, to_stride;
  const T* from;
  S* to;
};

template <class T, class S, int n, bool adds>
__global__ void __launch_bounds__(block_threads) row_block_kernel(RowBlock<T, S> p) {
  const Index i = (static_cast<Index>(blockIdx.x) * block_threads + threadIdx.x) * n;
  if (i >= p.rows * p.columns) return;
  const Index row = i / p.columns, column = i % p.columns;
  S* const to = p.to + row * p.to_stride + column;
  float v[n];
  load<n>(p.from + row * p.from_stride + column, v);
  if constexpr (adds) {
    float sum[n];
    load<n>(to, sum);
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) v[j] = sum[j] + v[j];
  }
  store<n>(v, to);
}

// Of the wider of the two types as many as fit into 16 bytes, where every row of both begins at a multiple of that.
template <bool adds, class T, class S>
void start(const char* name, cudaStream_t stream, const RowBlock<T, S>& p) {
  using Wide = std::conditional_t<(sizeof(T) > sizeof(S)), T, S>;
  constexpr int n = pack_of<Wide>;
  const Index elements = p.rows * p.columns;
  if (rows_are_aligned<Wide>(p.columns, {p.from, p.to}) && p.from_stride % n == 0 && p.to_stride % n == 0)
    launch(name, stream, row_block_kernel<T, S, n, adds>, dim3(blocks_for(elements, block_threads * n)),
           dim3(block_threads), 0, p);
  else
    launch(name, stream, row_block_kernel<T, S, 1, adds>, dim3(blocks_for(elements, block_threads)),
           dim3(block_threads), 0, p);
}

}  // namespace

template <class T, class S>
void copy_rows(cudaStream_t stream, Index rows, Index columns, Index from_stride, Index to_stride, const T* from,
               S* to) {
  start<false>("copy_rows", stream, RowBlock<T, S>{rows, columns, from_stride, to_stride, from, to});
}
template <class T>
void add_rows(cudaStream_t stream, Index rows, Index columns, Index from_stride, Index to_stride, const T* from,
              float* to) {
  start<true>("add_rows", stream, RowBlock<T, float>{rows, columns, from_stride, to_stride, from, to});
}

template void copy_rows(cudaStream_t, Index, Index, Index, Index, const float*, float*);
template void copy_rows(cudaStream_t, Index, Index, Index, Index, const float*, bf16*);
template void copy_rows(cudaStream_t, Index, Index, Index, Index, const bf16*, float*);
template void copy_rows(cudaStream_t, Index, Index, Index, Index, const bf16*, bf16*);
template void add_rows(cudaStream_t, Index, Index, Index, Index, const float*, float*);
template void add_rows(cudaStream_t, Index, Index, Index, Index, const bf16*, float*);

}  // namespace longhaul::cuda
