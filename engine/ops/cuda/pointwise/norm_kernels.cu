#include "engine/ops/cuda/common/packs.h"
#include "engine/ops/cuda/common/row_access.h"
#include "engine/ops/cuda/pointwise/norm_kernels.h"
#include "engine/ops/cuda/pointwise/norm_rows.h"

namespace longhaul::cuda {
namespace {

// y = weight * T(x r): the order of casts of Hugging Face's Llama.
template <class T>
__device__ float normed(float x, float r, float weight) {
  return to_float(from_float<T>(x * r)) * weight;
}

// A row lies in the registers of its threads, as it does in memory; everything of it, and of the weight, is asked for
// before anything is waited for. Threads (x, y): x of row y of the block; a block of several rows has a warp for each.
template <class T, bool added>
__global__ void __launch_bounds__(row_threads_max) rmsnorm_rows_kernel(RmsNormForward<T> p) {
  constexpr int n = pack_of<T>;
  const Index row = static_cast<Index>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= p.tokens) return;  // a whole warp
  const int hidden = static_cast<int>(p.hidden), first = static_cast<int>(threadIdx.x) * n;
  const int step = static_cast<int>(blockDim.x) * n;
  const Index at = row * p.hidden;
  Words v[norm_packs] = {}, more[norm_packs] = {}, weight[norm_packs] = {};
  LONGHAUL_UNROLL
  for (int k = 0; k < norm_packs; ++k) {
    const int i = first + k * step;
    if (i >= hidden) break;
    v[k] = read_words(p.a + at + i);
    if constexpr (added) more[k] = read_words(p.b + at + i);
  }
  LONGHAUL_UNROLL
  for (int k = 0; k < norm_packs; ++k)
    if (first + k * step < hidden) weight[k] = read_words(p.weight + first + k * step);
  float squares = 0.0F;
  LONGHAUL_UNROLL
  for (int k = 0; k < norm_packs; ++k) {
    float x[n];
    unpack<T>(v[k], x);
    if constexpr (added) {
      float b[n];
      unpack<T>(more[k], b);
      LONGHAUL_UNROLL
      for (int j = 0; j < n; ++j) x[j] += b[j];
      v[k] = packed<T>(x);
      unpack<T>(v[k], x);
      if (first + k * step < hidden) write_words(v[k], p.sum + at + first + k * step);
    }
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) squares += x[j] * x[j];
  }
  squares = sum_over_block(squares, reinterpret_cast<float*>(shared_memory()));
  const float r = rsqrtf(squares / static_cast<float>(hidden) + p.eps);
  if (threadIdx.x == 0 && p.inv_rms != nullptr) p.inv_rms[row] = r;
  LONGHAUL_UNROLL
  for (int k = 0; k < norm_packs; ++k) {
    if (first + k * step >= hidden) break;
    float x[n], w[n];
    unpack<T>(v[k], x), unpack<T>(weight[k], w);
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) x[j] *= r;
    unpack<T>(packed<T>(x), x);
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) x[j] *= w[j];
    write_words(packed<T>(x), p.y + at + first + k * step);
  }
}

// Rows that begin anywhere, or are longer: a block for each, which reads it twice.
template <class T, int n>
__global__ void __launch_bounds__(row_threads_max) rmsnorm_any_kernel(RmsNormForward<T> p) {
  float* parts = reinterpret_cast<float*>(shared_memory());
  const Index row = blockIdx.x, at = row * p.hidden, step = static_cast<Index>(blockDim.x) * n;
  const T* x = p.b == nullptr ? p.a : p.sum;
  float squares = 0.0F, v[n];
  for (Index i = static_cast<Index>(threadIdx.x) * n; i < p.hidden; i += step) {
    load<n>(p.a + at + i, v);
    if (p.b != nullptr) {
      float w[n];
      load<n>(p.b + at + i, w);
      LONGHAUL_UNROLL
      for (int j = 0; j < n; ++j) v[j] = to_float(from_float<T>(v[j] + w[j]));
      store<n>(v, p.sum + at + i);
    }
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) squares += v[j] * v[j];
  }
  const float r = rsqrtf(sum_over_block(squares, parts) / static_cast<float>(p.hidden) + p.eps);
  if (threadIdx.x == 0 && p.inv_rms != nullptr) p.inv_rms[row] = r;
  // Each thread reads what it has read, or written, itself.
  for (Index i = static_cast<Index>(threadIdx.x) * n; i < p.hidden; i += step) {
    float w[n];
    load<n>(x + at + i, v), load<n>(p.weight + i, w);
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) v[j] = normed<T>(v[j], r, w[j]);
    store<n>(v, p.y + at + i);
  }
}

}  // namespace

template <class T>
void rmsnorm_forward(cudaStream_t stream, const RmsNormForward<T>& p) {
  constexpr int n = pack_of<T>;
  const bool aligned = rows_are_aligned<T>(p.hidden, {p.a, p.b, p.weight, p.sum, p.y});
  const Index threads = whole_warps((p.hidden + n * norm_packs - 1) / (n * norm_packs));
  if (aligned && threads <= row_threads_max) {
    const auto kernel = p.b == nullptr ? rmsnorm_rows_kernel<T, false> : rmsnorm_rows_kernel<T, true>;
    const unsigned rows = threads == warp_size ? short_rows_threads / warp_size : 1;
    return launch("rmsnorm_forward", stream, kernel, dim3(blocks_for(p.tokens, rows)),
                  dim3(static_cast<unsigned>(threads), rows), reduce_bytes, p);
  }
  const auto kernel = aligned ? rmsnorm_any_kernel<T, n> : rmsnorm_any_kernel<T, 1>;
  launch("rmsnorm_forward", stream, kernel, dim3(static_cast<unsigned>(p.tokens)),
         dim3(threads_of_row(p.hidden, aligned ? n : 1)), reduce_bytes, p);
}

template void rmsnorm_forward(cudaStream_t, const RmsNormForward<float>&);
template void rmsnorm_forward(cudaStream_t, const RmsNormForward<bf16>&);

}  // namespace longhaul::cuda
