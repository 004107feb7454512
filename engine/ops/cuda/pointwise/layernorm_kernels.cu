#include "engine/ops/cuda/common/packs.h"
#include "engine/ops/cuda/common/row_access.h"
#include "engine/ops/cuda/pointwise/layernorm_kernels.h"
#include "engine/ops/cuda/pointwise/norm_rows.h"

namespace longhaul::cuda {
namespace {

// As rmsnorm_rows_kernel (norm_kernels.cu): a row lies in the registers of its threads, as it does in memory.
template <class T>
__global__ void __launch_bounds__(row_threads_max) layernorm_rows_kernel(LayerNormForward<T> p) {
  constexpr int n = pack_of<T>;
  const Index row = static_cast<Index>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= p.tokens) return;  // a whole warp
  auto* const parts = reinterpret_cast<float*>(shared_memory());
  const int hidden = static_cast<int>(p.hidden), first = static_cast<int>(threadIdx.x) * n;
  const int step = static_cast<int>(blockDim.x) * n;
  const Index at = row * p.hidden;
  Words v[norm_packs] = {}, more[norm_packs] = {}, weight[norm_packs] = {}, bias[norm_packs] = {};
  LONGHAUL_UNROLL
  for (int k = 0; k < norm_packs; ++k) {
    const int i = first + k * step;
    if (i >= hidden) break;
    v[k] = read_words(p.a + at + i);
    if (p.b != nullptr) more[k] = read_words(p.b + at + i);
  }
  LONGHAUL_UNROLL
  for (int k = 0; k < norm_packs; ++k)
    if (first + k * step < hidden) {
      weight[k] = read_words(p.weight + first + k * step);
      bias[k] = read_words(p.bias + first + k * step);
    }
  float total = 0.0F;
  LONGHAUL_UNROLL
  for (int k = 0; k < norm_packs; ++k) {
    float x[n];
    unpack<T>(v[k], x);
    if (p.b != nullptr && first + k * step < hidden) {
      float b[n];
      unpack<T>(more[k], b);
      LONGHAUL_UNROLL
      for (int j = 0; j < n; ++j) x[j] += b[j];
      if (p.column_bias != nullptr) {
        unpack<T>(read_words(p.column_bias + first + k * step), b);
        LONGHAUL_UNROLL
        for (int j = 0; j < n; ++j) x[j] += b[j];
      }
      v[k] = packed<T>(x);
      unpack<T>(v[k], x);
      write_words(v[k], p.sum + at + first + k * step);
    }
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) total += x[j];
  }
  const float count = static_cast<float>(hidden), mean = sum_over_block(total, parts) / count;
  float squares = 0.0F;
  LONGHAUL_UNROLL
  for (int k = 0; k < norm_packs; ++k) {
    if (first + k * step >= hidden) break;
    float x[n];
    unpack<T>(v[k], x);
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) squares += (x[j] - mean) * (x[j] - mean);
  }
  const float r = rsqrtf(sum_over_block(squares, parts) / count + p.eps);
  if (threadIdx.x == 0 && p.statistics != nullptr) p.statistics[2 * row] = mean, p.statistics[2 * row + 1] = r;
  LONGHAUL_UNROLL
  for (int k = 0; k < norm_packs; ++k) {
    if (first + k * step >= hidden) break;
    float x[n], w[n], b[n];
    unpack<T>(v[k], x), unpack<T>(weight[k], w), unpack<T>(bias[k], b);
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) x[j] = (x[j] - mean) * r * w[j] + b[j];
    write_words(packed<T>(x), p.y + at + first + k * step);
  }
}

// Rows that begin anywhere, or are longer: a block for each, which reads it several times.
template <class T, int n>
__global__ void __launch_bounds__(row_threads_max) layernorm_any_kernel(LayerNormForward<T> p) {
  float* parts = reinterpret_cast<float*>(shared_memory());
  const Index row = blockIdx.x, at = row * p.hidden, step = static_cast<Index>(blockDim.x) * n;
  const Index first = static_cast<Index>(threadIdx.x) * n;
  const T* const x = p.b == nullptr ? p.a : p.sum;
  const float count = static_cast<float>(p.hidden);
  float total = 0.0F, v[n];
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
    load<n>(x + at + i, v);
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) squares += (v[j] - mean) * (v[j] - mean);
  }
  const float r = rsqrtf(sum_over_block(squares, parts) / count + p.eps);
  if (threadIdx.x == 0 && p.statistics != nullptr) p.statistics[2 * row] = mean, p.statistics[2 * row + 1] = r;
  for (Index i = first; i < p.hidden; i += step) {
    float w[n], b[n];
    load<n>(x + at + i, v);
    load<n>(p.weight + i, w), load<n>(p.bias + i, b);
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) v[j] = (v[j] - mean) * r * w[j] + b[j];
    store<n>(v, p.y + at + i);
  }
}

}  // namespace

template <class T>
void layernorm_forward(cudaStream_t stream, const LayerNormForward<T>& p) {
  constexpr int n = pack_of<T>;
  const bool aligned = rows_are_aligned<T>(p.hidden, {p.a, p.b, p.column_bias, p.weight, p.bias, p.sum, p.y});
  const Index threads = whole_warps((p.hidden + n * norm_packs - 1) / (n * norm_packs));
  if (aligned && threads <= row_threads_max) {
    const unsigned rows = threads == warp_size ? short_rows_threads / warp_size : 1;
    return launch("layernorm_forward", stream, layernorm_rows_kernel<T>, dim3(blocks_for(p.tokens, rows)),
                  dim3(static_cast<unsigned>(threads), rows), reduce_bytes, p);
  }
  const auto kernel = aligned ? layernorm_any_kernel<T, n> : layernorm_any_kernel<T, 1>;
  launch("layernorm_forward", stream, kernel, dim3(static_cast<unsigned>(p.tokens)),
         dim3(threads_of_row(p.hidden, aligned ? n : 1)), reduce_bytes, p);
}

template void layernorm_forward(cudaStream_t, const LayerNormForward<float>&);
template void layernorm_forward(cudaStream_t, const LayerNormForward<bf16>&);

}  // namespace longhaul::cuda
