#include "engine/ops/cuda/layernorm_kernels.h"
#include "engine/ops/cuda/row_access.h"

namespace longhaul::cuda {
namespace {

constexpr std::size_t reduce_bytes = row_threads_max / warp_size * sizeof(float);

template <class T, int n>
__global__ void __launch_bounds__(row_threads_max) layernorm_forward_kernel(LayerNormForward<T> p) {
  float* parts = reinterpret_cast<float*>(shared_memory());
  const Index row = blockIdx.x, at = row * p.hidden, step = static_cast<Index>(blockDim.x) * n;
  const Index first = static_cast<Index>(threadIdx.x) * n;
  const T* const x = p.b == nullptr ? p.a : p.sum;
  const float count = static_cast<float>(p.hidden);
  const bool kept = p.hidden <= step;  // v is all that this thread has of the row
  float total = 0.0F, v[n] = {};
  for (Index i = first; i < p.hidden; i += step) {
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
    if (!kept) load<n>(x + at + i, v);
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) squares += (v[j] - mean) * (v[j] - mean);
  }
  const float r = rsqrtf(sum_over_block(squares, parts) / count + p.eps);
  if (threadIdx.x == 0 && p.statistics != nullptr) p.statistics[2 * row] = mean, p.statistics[2 * row + 1] = r;
  for (Index i = first; i < p.hidden; i += step) {
    float w[n], b[n];
    if (!kept) load<n>(x + at + i, v);
    load<n>(p.weight + i, w), load<n>(p.bias + i, b);
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) v[j] = (v[j] - mean) * r * w[j] + b[j];
    store<n>(v, p.y + at + i);
  }
}

}  // namespace

template <class T>
void layernorm_forward(cudaStream_t stream, const LayerNormForward<T>& p) {
  with_width<T>(p.hidden, {p.a, p.b, p.column_bias, p.weight, p.bias, p.sum, p.y}, [&](auto width) {
    constexpr int n = decltype(width)::value;
    launch("layernorm_forward", stream, layernorm_forward_kernel<T, n>, dim3(static_cast<unsigned>(p.tokens)),
           dim3(threads_of_row(p.hidden, n)), reduce_bytes, p);
  });
}

template void layernorm_forward(cudaStream_t, const LayerNormForward<float>&);
template void layernorm_forward(cudaStream_t, const LayerNormForward<bf16>&);

}  // namespace longhaul::cuda
