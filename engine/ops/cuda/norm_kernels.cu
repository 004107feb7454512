#include <algorithm>

#include "engine/ops/cuda/norm_kernels.h"
#include "engine/ops/cuda/row_access.h"
#include "engine/ops/cuda/row_parts.h"

namespace longhaul::cuda {
namespace {

constexpr int row_threads = 256;
constexpr std::size_t reduce_bytes = row_threads / warp_size * sizeof(float);

// y = weight * T(x r): the order of casts of Hugging Face's Llama.
template <class T>
__device__ float normed(float x, float r, float weight) {
  return to_float(from_float<T>(x * r)) * weight;
}

template <class T, int n>
__global__ void __launch_bounds__(row_threads) rmsnorm_forward_kernel(RmsNormForward<T> p) {
  float* parts = reinterpret_cast<float*>(shared_memory());
  const Index row = blockIdx.x, at = row * p.hidden, step = static_cast<Index>(blockDim.x) * n;
  const T* x = p.b == nullptr ? p.a : p.sum;
  float squares = 0.0F;
  for (Index i = static_cast<Index>(threadIdx.x) * n; i < p.hidden; i += step) {
    float v[n];
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
    float v[n], w[n];
    load<n>(x + at + i, v);
    load<n>(p.weight + i, w);
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) v[j] = normed<T>(v[j], r, w[j]);
    store<n>(v, p.y + at + i);
  }
}

// Rows are dealt to the blocks in turn. A thread has the same columns of each row, so that it alone adds up their
// gradient of the weight: in its own place of parts[block].
template <class T, int n>
__global__ void __launch_bounds__(row_threads) rmsnorm_backward_kernel(RmsNormBackward<T> p) {
  float* parts = reinterpret_cast<float*>(shared_memory());
  const Index step = static_cast<Index>(blockDim.x) * n, first = static_cast<Index>(threadIdx.x) * n;
  float* const mine = p.parts == nullptr ? nullptr : p.parts + blockIdx.x * p.hidden;
  if (mine != nullptr)
    for (Index i = first; i < p.hidden; i += step)
      for (int j = 0; j < n; ++j) mine[i + j] = 0.0F;
  for (Index row = blockIdx.x; row < p.tokens; row += gridDim.x) {
    const Index at = row * p.hidden;
    const float r = p.inv_rms[row];
    float products = 0.0F;  // g n
    for (Index i = first; i < p.hidden; i += step) {
      float dy[n], x[n], w[n];
      load<n>(p.dy + at + i, dy), load<n>(p.x + at + i, x), load<n>(p.weight + i, w);
      LONGHAUL_UNROLL
      for (int j = 0; j < n; ++j) products += dy[j] * w[j] * (x[j] * r);
    }
    const float mean = sum_over_block(products, parts) / static_cast<float>(p.hidden);
    for (Index i = first; i < p.hidden; i += step) {
      float dy[n], x[n], w[n], dx[n];
      load<n>(p.dy + at + i, dy), load<n>(p.x + at + i, x), load<n>(p.weight + i, w);
      if (p.accumulate_dx) load<n>(p.dx + at + i, dx);
      LONGHAUL_UNROLL
      for (int j = 0; j < n; ++j) {
        const float normal = x[j] * r, gradient = r * (dy[j] * w[j] - normal * mean);
        dx[j] = p.accumulate_dx ? dx[j] + gradient : gradient;
        if (mine != nullptr) mine[i + j] += dy[j] * normal;
      }
      store<n>(dx, p.dx + at + i);
    }
  }
}

}  // namespace

Index rmsnorm_backward_blocks(Index tokens) {
  return std::min<Index>(tokens, row_part_blocks_max);
}

template <class T>
void rmsnorm_forward(cudaStream_t stream, const RmsNormForward<T>& p) {
  with_width<T>(p.hidden, {p.a, p.b, p.weight, p.sum, p.y}, [&](auto width) {
    launch("rmsnorm_forward", stream, rmsnorm_forward_kernel<T, decltype(width)::value>,
           dim3(static_cast<unsigned>(p.tokens)), dim3(row_threads), reduce_bytes, p);
  });
}

template <class T>
void rmsnorm_backward(cudaStream_t stream, const RmsNormBackward<T>& p) {
  const Index blocks = rmsnorm_backward_blocks(p.tokens);
  RmsNormBackward<T> arguments = p;
  if (p.dweight == nullptr) arguments.parts = nullptr;
  with_width<T>(p.hidden, {p.dy, p.x, p.weight, p.dx, p.parts}, [&](auto width) {
    launch("rmsnorm_backward", stream, rmsnorm_backward_kernel<T, decltype(width)::value>,
           dim3(static_cast<unsigned>(blocks)), dim3(row_threads), reduce_bytes, arguments);
  });
  if (p.dweight != nullptr) add_parts(stream, blocks, p.hidden, p.hidden, p.parts, p.dweight);
}

template void rmsnorm_forward(cudaStream_t, const RmsNormForward<float>&);
template void rmsnorm_forward(cudaStream_t, const RmsNormForward<bf16>&);
template void rmsnorm_backward(cudaStream_t, const RmsNormBackward<float>&);
template void rmsnorm_backward(cudaStream_t, const RmsNormBackward<bf16>&);

}  // namespace longhaul::cuda
