#include "engine/ops/cuda/common/row_access.h"
#include "engine/ops/cuda/pointwise/update_kernels.h"

namespace longhaul::cuda {
namespace {

constexpr int threads = 256;

__device__ inline void put(float* to, float value, bool, std::uint32_t) {
  *to = value;
}
__device__ inline void put(bf16* to, float value, bool stochastic, std::uint32_t draw) {
  *to = stochastic ? round_stochastically(value, draw) : bf16(value);
}

template <class M, class V, int n>
__global__ void __launch_bounds__(threads) adamw_kernel(AdamW<M, V> p) {
  const Index i = (static_cast<Index>(blockIdx.x) * threads + threadIdx.x) * n;
  if (i >= p.n) return;
  float master[n], m[n], v[n], grad[n];
  load<n>(p.master + i, master), load<n>(p.m + i, m), load<n>(p.v + i, v), load<n>(p.grad + i, grad);
  Pack<M, n> new_m;
  Pack<V, n> new_v;
  LONGHAUL_UNROLL
  for (int j = 0; j < n; ++j) {
    const float g = grad[j] * p.grad_scale;
    const float m1 = m[j] * p.beta1 + g * (1.0F - p.beta1), v1 = v[j] * p.beta2 + g * g * (1.0F - p.beta2);
    master[j] = master[j] * p.decay - p.step_size * m1 / (sqrtf(v1) * p.inverse_root_correction2 + p.eps);
    const std::uint32_t draw = p.stochastic ? rounding_draw(p.random, p.order.index(p.first + i + j)) : 0;
    put(&new_m.value[j], m1, p.stochastic, draw);
    put(&new_v.value[j], v1, p.stochastic, draw_of_second(draw));
  }
  *reinterpret_cast<Pack<M, n>*>(p.m + i) = new_m;
  *reinterpret_cast<Pack<V, n>*>(p.v + i) = new_v;
  store<n>(master, p.master + i);
  if (p.copy != nullptr) store<n>(master, p.copy + i);
  if (p.wide_copy != nullptr) store<n>(master, p.wide_copy + i);
}

constexpr int channels = 8;  // of one block of random numbers, 16 bits each

__host__ __device__ inline Index blocks_of_channels(Index count) {
  return (count + channels - 1) / channels;
}

// A thread for each block of the row of a token that has one of its columns in x.
template <class T>
__global__ void __launch_bounds__(threads) dropout_kernel(Dropout<T> p) {
  const Index lead = p.first_column % channels, blocks = blocks_of_channels(lead + p.columns);
  const Index at = static_cast<Index>(blockIdx.x) * threads + threadIdx.x;
  if (at >= p.rows * blocks) return;
  const Index row = at / blocks, block = at % blocks, token = p.first + row;
  const auto sample = static_cast<std::uint64_t>(p.sample + token / p.length);
  const Index position = p.offset + token % p.length;
  const Philox random{p.seed, p.stream_base + sample * p.places + p.place};
  const Index of_row = position * blocks_of_channels(p.row_columns) + p.first_column / channels + block;
  const PhiloxBlock words = random.block(static_cast<std::uint64_t>(of_row));
  LONGHAUL_UNROLL
  for (int j = 0; j < channels; ++j) {
    const Index column = block * channels + j - lead;
    if (column < 0 || column >= p.columns) continue;
    const std::uint32_t draw = words[static_cast<std::size_t>(j / 2)] >> (16 * (j % 2)) & 0xFFFFU;
    const Index i = row * p.columns + column;
    p.out[i] = from_float<T>(to_float(p.x[i]) * ((draw >= p.threshold ? p.scale : 0.0F) - p.less));
  }
}

}  // namespace

template <class M, class V>
void adamw(cudaStream_t stream, const AdamW<M, V>& p) {
  const bool wide = rows_are_aligned<float>(p.n, {p.master, p.m, p.v, p.grad, p.copy, p.wide_copy});
  if (wide)
    launch("adamw", stream, adamw_kernel<M, V, 4>, dim3(blocks_for(p.n, threads * 4)), dim3(threads), 0, p);
  else
    launch("adamw", stream, adamw_kernel<M, V, 1>, dim3(blocks_for(p.n, threads)), dim3(threads), 0, p);
}
template <class T>
void dropout(cudaStream_t stream, const Dropout<T>& p) {
  launch("dropout", stream, dropout_kernel<T>,
         dim3(blocks_for(p.rows * blocks_of_channels(p.first_column % channels + p.columns), threads)), dim3(threads),
         0, p);
}

template void adamw(cudaStream_t, const AdamW<float, float>&);
template void adamw(cudaStream_t, const AdamW<bf16, float>&);
template void adamw(cudaStream_t, const AdamW<bf16, bf16>&);
template void dropout(cudaStream_t, const Dropout<float>&);
template void dropout(cudaStream_t, const Dropout<bf16>&);

}  // namespace longhaul::cuda
