#include "engine/ops/cuda/loss_kernels.h"
#include "engine/ops/cuda/row_access.h"

namespace longhaul::cuda {
namespace {

constexpr int row_threads = 512;
constexpr std::size_t reduce_bytes = row_threads / warp_size * sizeof(float);

struct TopAndTotal {
  float top, total;  // max z, sum exp(z - top)
};

// What stands behind the row's last column, where that is in the middle of a pack, counts for nothing.
template <int n>
__device__ inline void leave_out_beyond(Index i, Index columns, float (&v)[n]) {
  if (i + n <= columns) return;
  LONGHAUL_UNROLL
  for (int j = 0; j < n; ++j)
    if (i + j >= columns) v[j] = -INFINITY;
}

// One pass over the row: each thread keeps the largest it has seen and the sum relative to that (Milakov & Gimelshein
// 2018, algorithm 3); then those of all threads are brought to one.
template <class T, int n>
__device__ TopAndTotal top_and_total(const T* row, Index columns, float inverse_temperature, float* parts) {
  float top = -INFINITY, total = 0.0F;
  for (Index i = static_cast<Index>(threadIdx.x) * n; i < columns; i += row_threads * n) {
    float v[n];
    load<n>(row + i, v);
    leave_out_beyond(i, columns, v);
    float here = top;
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) v[j] *= inverse_temperature, here = larger(here, v[j]);
    total = here == -INFINITY ? 0.0F : total * __expf(top - here);
    if (here == -INFINITY) continue;
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) total += __expf(v[j] - here);
    top = here;
  }
  const float of_row = max_over_block(top, parts);
  const float scaled = top == -INFINITY ? 0.0F : total * __expf(top - of_row);
  return {of_row, sum_over_block(scaled, parts)};
}

template <class T, int n>
__global__ void __launch_bounds__(row_threads) cross_entropy_kernel(CrossEntropy<T> p) {
  float* parts = reinterpret_cast<float*>(shared_memory());
  const Index token = blockIdx.x;
  const T* const z = p.logits + token * p.stride;
  const std::int32_t target = p.targets[token];
  const float weight = p.weights == nullptr ? 0.0F : p.weights[token];
  T* const dz = p.weights == nullptr ? nullptr : p.dlogits + token * p.stride;
  const bool counts = target >= 0;
  float top = 0.0F, total = 1.0F;
  if (counts) {  // the same for all threads of the block
    const TopAndTotal both = top_and_total<T, n>(z, p.vocab, 1.0F, parts);
    top = both.top, total = both.total;
    if (threadIdx.x == 0) p.loss[token] = top + logf(total) - to_float(z[target]);
  } else if (threadIdx.x == 0) {
    p.loss[token] = 0.0F;
  }
  if (dz == nullptr) return;
  sync_block();  // z[target] is read before the row may be written over
  const float scale = counts ? weight / total : 0.0F;
  for (Index i = static_cast<Index>(threadIdx.x) * n; i < p.vocab; i += row_threads * n) {
    float v[n];
    load<n>(z + i, v);
    leave_out_beyond(i, p.vocab, v);
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) {
      v[j] = scale == 0.0F ? 0.0F : __expf(v[j] - top) * scale;
      if (i + j == target) v[j] -= weight;
    }
    store<n>(v, dz + i);
  }
}

template <class T, int n>
__global__ void __launch_bounds__(row_threads)
    softmax_kernel(Index columns, const T* logits, float inverse_temperature, float* probabilities) {
  float* parts = reinterpret_cast<float*>(shared_memory());
  const T* const z = logits + blockIdx.x * columns;
  const TopAndTotal both = top_and_total<T, n>(z, columns, inverse_temperature, parts);
  for (Index i = threadIdx.x; i < columns; i += row_threads)
    probabilities[blockIdx.x * columns + i] = __expf(to_float(z[i]) * inverse_temperature - both.top) / both.total;
}

}  // namespace

template <class T>
void cross_entropy(cudaStream_t stream, const CrossEntropy<T>& p) {
  constexpr Index pack = pack_of<T>;
  const bool wide =
      rows_are_aligned<T>(p.stride, {p.logits, p.dlogits}) && p.stride >= (p.vocab + pack - 1) / pack * pack;
  const dim3 grid(static_cast<unsigned>(p.tokens));
  if (wide)
    launch("cross_entropy", stream, cross_entropy_kernel<T, static_cast<int>(pack)>, grid, dim3(row_threads),
           reduce_bytes, p);
  else
    launch("cross_entropy", stream, cross_entropy_kernel<T, 1>, grid, dim3(row_threads), reduce_bytes, p);
}

template <class T>
void softmax_rows(cudaStream_t stream, Index rows, Index columns, const T* logits, float inverse_temperature,
                  float* probabilities) {
  with_width<T>(columns, {logits}, [&](auto width) {
    launch("softmax", stream, softmax_kernel<T, decltype(width)::value>, dim3(static_cast<unsigned>(rows)),
           dim3(row_threads), reduce_bytes, columns, logits, inverse_temperature, probabilities);
  });
}

template void cross_entropy(cudaStream_t, const CrossEntropy<float>&);
template void cross_entropy(cudaStream_t, const CrossEntropy<bf16>&);
template void softmax_rows(cudaStream_t, Index, Index, const float*, float, float*);
template void softmax_rows(cudaStream_t, Index, Index, const bf16*, float, float*);

}  // namespace longhaul::cuda
