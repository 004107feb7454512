#include "engine/ops/cuda/norm_kernels.h"
#include "engine/ops/cuda/row_access.h"

namespace longhaul::cuda {
namespace {

constexpr std::size_t reduce_bytes = row_threads_max / warp_size * sizeof(float);

// y = weight * T(x r): the order of casts of Hugging Face's Llama.
template <class T>
__device__ float normed(float x, float r, float weight) {
  return to_float(from_float<T>(x * r)) * weight;
}

template <class T, int n>
__global__ void __launch_bounds__(row_threads_max) rmsnorm_forward_kernel(RmsNormForward<T> p) {
  float* parts = reinterpret_cast<float*>(shared_memory());
  const Index row = blockIdx.x, at = row * p.hidden, step = static_cast<Index>(blockDim.x) * n;
  const T* x = p.b == nullptr ? p.a : p.sum;
  const bool kept = p.hidden <= step;  // v is all that this thread has of the row
  float squares = 0.0F, v[n] = {};
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
    if (!kept) load<n>(x + at + i, v);
    load<n>(p.weight + i, w);
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) v[j] = normed<T>(v[j], r, w[j]);
    store<n>(v, p.y + at + i);
  }
}

}  // namespace

template <class T>
void rmsnorm_forward(cudaStream_t stream, const RmsNormForward<T>& p) {
  with_width<T>(p.hidden, {p.a, p.b, p.weight, p.sum, p.y}, [&](auto width) {
    constexpr int n = decltype(width)::value;
    launch("rmsnorm_forward", stream, rmsnorm_forward_kernel<T, n>, dim3(static_cast<unsigned>(p.tokens)),
           dim3(threads_of_row(p.hidden, n)), reduce_bytes, p);
  });
}

template void rmsnorm_forward(cudaStream_t, const RmsNormForward<float>&);
template void rmsnorm_forward(cudaStream_t, const RmsNormForward<bf16>&);

}  // namespace longhaul::cuda
