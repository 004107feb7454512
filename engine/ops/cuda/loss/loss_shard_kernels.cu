#include "engine/ops/cuda/common/row_access.h"
#include "engine/ops/cuda/loss/loss_shard_kernels.h"

namespace longhaul::cuda {
namespace {

constexpr int map_threads = 256;

template <class T, int n>
__global__ void __launch_bounds__(row_threads_max) tops_kernel(Index columns, const T* logits, float* tops) {
  float* parts = reinterpret_cast<float*>(shared_memory());
  const T* const z = logits + blockIdx.x * columns;
  float top = -INFINITY;
  for (Index i = static_cast<Index>(threadIdx.x) * n; i < columns; i += row_threads_max * n) {
    float v[n];
    load<n>(z + i, v);
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) top = larger(top, v[j]);
  }
  top = max_over_block(top, parts);
  if (threadIdx.x == 0) tops[blockIdx.x] = top;
}

// Where the target lies in this shard; -1: in another, or there is none.
template <class T>
__device__ inline Index target_here(const LossShard<T>& p, Index token) {
  const Index target = p.targets[token], here = target - p.first;
  return target >= 0 && here >= 0 && here < p.columns ? here : -1;
}

template <class T, int n>
__global__ void __launch_bounds__(row_threads_max) sums_kernel(LossShard<T> p, float* sums) {
  float* parts = reinterpret_cast<float*>(shared_memory());
  const Index token = blockIdx.x;
  const T* const z = p.logits + token * p.columns;
  const float top = p.tops[token];
  float total = 0.0F;
  for (Index i = static_cast<Index>(threadIdx.x) * n; i < p.columns; i += row_threads_max * n) {
    float v[n];
    load<n>(z + i, v);
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) total += __expf(v[j] - top);
  }
  total = sum_over_block(total, parts);
  if (threadIdx.x != 0) return;
  const Index target = target_here(p, token);
  sums[token] = total;
  sums[p.tokens + token] = target >= 0 ? to_float(z[target]) - top : 0.0F;
}

__global__ void __launch_bounds__(map_threads)
    losses_kernel(Index tokens, const float* sums, const std::int32_t* targets, float* loss) {
  const Index token = static_cast<Index>(blockIdx.x) * map_threads + threadIdx.x;
  if (token < tokens) loss[token] = targets[token] < 0 ? 0.0F : logf(sums[token]) - sums[tokens + token];
}

template <class T, int n>
__global__ void __launch_bounds__(row_threads_max) gradient_kernel(LossShard<T> p) {
  const Index token = blockIdx.x, target = target_here(p, token);
  const T* const z = p.logits + token * p.columns;
  T* const dz = p.gradient + token * p.columns;
  const float weight = p.targets[token] < 0 ? 0.0F : p.weights[token], top = p.tops[token];
  const float scale = weight == 0.0F ? 0.0F : weight / p.sums[token];
  for (Index i = static_cast<Index>(threadIdx.x) * n; i < p.columns; i += row_threads_max * n) {
    float v[n];
    load<n>(z + i, v);
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) {
      v[j] = scale == 0.0F ? 0.0F : __expf(v[j] - top) * scale;
      if (i + j == target) v[j] -= weight;
    }
    store<n>(v, dz + i);
  }
}

dim3 a_block_for_each(Index tokens) {
  return dim3(static_cast<unsigned>(tokens));
}

}  // namespace

template <class T>
void shard_tops(cudaStream_t stream, Index tokens, Index columns, const T* logits, float* tops) {
  with_width<T>(columns, {logits}, [&](auto width) {
    launch("shard_tops", stream, tops_kernel<T, decltype(width)::value>, a_block_for_each(tokens),
           dim3(row_threads_max), reduce_bytes, columns, logits, tops);
  });
}
template <class T>
void shard_sums(cudaStream_t stream, const LossShard<T>& p, float* sums) {
  with_width<T>(p.columns, {p.logits}, [&](auto width) {
    launch("shard_sums", stream, sums_kernel<T, decltype(width)::value>, a_block_for_each(p.tokens),
           dim3(row_threads_max), reduce_bytes, p, sums);
  });
}
void losses_of_sums(cudaStream_t stream, Index tokens, const float* sums, const std::int32_t* targets, float* loss) {
  launch("losses_of_sums", stream, losses_kernel, dim3(blocks_for(tokens, map_threads)), dim3(map_threads), 0, tokens,
         sums, targets, loss);
}
template <class T>
void shard_gradient(cudaStream_t stream, const LossShard<T>& p) {
  with_width<T>(p.columns, {p.logits, p.gradient}, [&](auto width) {
    launch("shard_gradient", stream, gradient_kernel<T, decltype(width)::value>, a_block_for_each(p.tokens),
           dim3(row_threads_max), 0, p);
  });
}

template void shard_tops(cudaStream_t, Index, Index, const float*, float*);
template void shard_tops(cudaStream_t, Index, Index, const bf16*, float*);
template void shard_sums(cudaStream_t, const LossShard<float>&, float*);
template void shard_sums(cudaStream_t, const LossShard<bf16>&, float*);
template void shard_gradient(cudaStream_t, const LossShard<float>&);
template void shard_gradient(cudaStream_t, const LossShard<bf16>&);

}  // namespace longhaul::cuda
