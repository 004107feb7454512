#include <algorithm>

#include "engine/ops/cuda/layernorm_kernels.h"
#include "engine/ops/cuda/row_access.h"
#include "engine/ops/cuda/row_parts.h"

namespace longhaul::cuda {
namespace {

constexpr int row_threads = 256;
constexpr std::size_t reduce_bytes = row_threads / warp_size * sizeof(float);

template <class T, int n>
__global__ void __launch_bounds__(row_threads) layernorm_forward_kernel(LayerNormForward<T> p) {
  float* parts = reinterpret_cast<float*>(shared_memory());
  const Index row = blockIdx.x, at = row * p.hidden, step = static_cast<Index>(blockDim.x) * n;
  const Index first = static_cast<Index>(threadIdx.x) * n;
  const T* const x = p.b == nullptr ? p.a : p.sum;
  const float count = static_cast<float>(p.hidden);
  float total = 0.0F;
  for (Index i = first; i < p.hidden; i += step) {
    float v[n];
    load<n>(p.a + at + i, v);
    if (p.b != nullptr) {
      float w[n];
      load<n>(p.b + at + i, w);
      LONGHAUL_UNROLL
      for (int j = 0; j < n; ++j) v[j] += w[j];
      if (p.column_bias != nullptr) {
        load<n>(p.column_bias + i, w);
        LONGHAUL_UNROLL
        for (int j = 0; j < n; ++j) v[j] += w[j];
      }
      LONGHAUL_UNROLL
      for (int j = 0; j < n; ++j) v[j] = to_float(from_float<T>(v[j]));
      store<n>(v, p.sum + at + i);
    }
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) total += v[j];
  }
  const float mean = sum_over_block(total, parts) / count;
  float squares = 0.0F;
  for (Index i = first; i < p.hidden; i += step) {
    float v[n];
    load<n>(x + at + i, v);
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) squares += (v[j] - mean) * (v[j] - mean);
  }
  const float r = rsqrtf(sum_over_block(squares, parts) / count + p.eps);
  if (threadIdx.x == 0 && p.statistics != nullptr) p.statistics[2 * row] = mean, p.statistics[2 * row + 1] = r;
  for (Index i = first; i < p.hidden; i += step) {
    float v[n], w[n], b[n];
    load<n>(x + at + i, v), load<n>(p.weight + i, w), load<n>(p.bias + i, b);
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) v[j] = (v[j] - mean) * r * w[j] + b[j];
    store<n>(v, p.y + at + i);
  }
}

// With n = (x - mean) r and g = dy weight: dx = r (g - mean(g) - n mean(g n)).
template <class T, int n>
__global__ void __launch_bounds__(row_threads) layernorm_backward_kernel(LayerNormBackward<T> p) {
  float* parts = reinterpret_cast<float*>(shared_memory());
  const Index step = static_cast<Index>(blockDim.x) * n, first = static_cast<Index>(threadIdx.x) * n;
  float* const of_weight = p.parts == nullptr ? nullptr : p.parts + blockIdx.x * 2 * p.hidden;
  float* const of_bias = of_weight == nullptr ? nullptr : of_weight + p.hidden;
  if (of_weight != nullptr)
    for (Index i = first; i < p.hidden; i += step)
      for (int j = 0; j < n; ++j) of_weight[i + j] = of_bias[i + j] = 0.0F;
  const float count = static_cast<float>(p.hidden);
  for (Index row = blockIdx.x; row < p.tokens; row += gridDim.x) {
    const Index at = row * p.hidden;
    const float mean = p.statistics[2 * row], r = p.statistics[2 * row + 1];
    float sum = 0.0F, products = 0.0F;
    for (Index i = first; i < p.hidden; i += step) {
      float dy[n], x[n], w[n];
      load<n>(p.dy + at + i, dy), load<n>(p.x + at + i, x), load<n>(p.weight + i, w);
      LONGHAUL_UNROLL
      for (int j = 0; j < n; ++j) sum += dy[j] * w[j], products += dy[j] * w[j] * ((x[j] - mean) * r);
    }
    sum = sum_over_block(sum, parts) / count;
    products = sum_over_block(products, parts) / count;
    for (Index i = first; i < p.hidden; i += step) {
      float dy[n], x[n], w[n], dx[n];
      load<n>(p.dy + at + i, dy), load<n>(p.x + at + i, x), load<n>(p.weight + i, w);
      if (p.accumulate_dx) load<n>(p.dx + at + i, dx);
      LONGHAUL_UNROLL
      for (int j = 0; j < n; ++j) {
        const float normal = (x[j] - mean) * r, gradient = r * (dy[j] * w[j] - sum - normal * products);
        dx[j] = p.accumulate_dx ? dx[j] + gradient : gradient;
        if (of_weight != nullptr) of_weight[i + j] += dy[j] * normal, of_bias[i + j] += dy[j];
      }
      store<n>(dx, p.dx + at + i);
    }
  }
}

}  // namespace

Index layernorm_backward_blocks(Index tokens) {
  return std::min<Index>(tokens, row_part_blocks_max);
}

template <class T>
void layernorm_forward(cudaStream_t stream, const LayerNormForward<T>& p) {
  with_width<T>(p.hidden, {p.a, p.b, p.column_bias, p.weight, p.bias, p.sum, p.y}, [&](auto width) {
    launch("layernorm_forward", stream, layernorm_forward_kernel<T, decltype(width)::value>,
           dim3(static_cast<unsigned>(p.tokens)), dim3(row_threads), reduce_bytes, p);
  });
}

template <class T>
void layernorm_backward(cudaStream_t stream, const LayerNormBackward<T>& p) {
  const Index blocks = layernorm_backward_blocks(p.tokens);
  LayerNormBackward<T> arguments = p;
  if (p.dweight == nullptr) arguments.parts = nullptr;
  with_width<T>(p.hidden, {p.dy, p.x, p.weight, p.dx, p.parts}, [&](auto width) {
    launch("layernorm_backward", stream, layernorm_backward_kernel<T, decltype(width)::value>,
           dim3(static_cast<unsigned>(blocks)), dim3(row_threads), reduce_bytes, arguments);
  });
  if (p.dweight == nullptr) return;
  add_parts(stream, blocks, p.hidden, 2 * p.hidden, p.parts, p.dweight);
  add_parts(stream, blocks, p.hidden, 2 * p.hidden, p.parts + p.hidden, p.dbias);
}

template void layernorm_forward(cudaStream_t, const LayerNormForward<float>&);
template void layernorm_forward(cudaStream_t, const LayerNormForward<bf16>&);
template void layernorm_backward(cudaStream_t, const LayerNormBackward<float>&);
template void layernorm_backward(cudaStream_t, const LayerNormBackward<bf16>&);

}  // namespace longhaul::cuda
