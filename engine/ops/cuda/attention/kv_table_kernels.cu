#include "engine/ops/cuda/attention/kv_table_kernels.h"
#include "engine/ops/cuda/common/row_access.h"

namespace longhaul::cuda {
namespace {

constexpr int copy_threads = 256;

// A block for each token.
template <class T>
__global__ void __launch_bounds__(copy_threads) kv_append_kernel(KvAppend<T> p) {
  const Index token = blockIdx.x;
  const KvPlace place = p.places[p.sequences[token]];
  const Index at = static_cast<Index>(p.positions[token]) * p.kv_size;
  T* const keys = reinterpret_cast<T*>(place.keys) + at;
  T* const values = reinterpret_cast<T*>(place.values) + at;
  const T* const from = p.qkv + token * (p.q_size + 2 * p.kv_size);
  for (Index i = threadIdx.x; i < p.q_size; i += copy_threads) p.q[token * p.q_size + i] = from[i];
  for (Index i = threadIdx.x; i < p.kv_size; i += copy_threads) {
    keys[i] = from[p.q_size + i];
    values[i] = from[p.q_size + p.kv_size + i];
  }
}

template <class T>
__global__ void __launch_bounds__(copy_threads)
    embedding_int8_kernel(Index width, const std::int32_t* ids, const std::int8_t* q, const float* scales, T* out) {
  const Index token = blockIdx.x, id = ids[token];
  const float scale = scales[id];
  for (Index i = threadIdx.x; i < width; i += copy_threads)
    out[token * width + i] = from_float<T>(scale * static_cast<float>(q[id * width + i]));
}

}  // namespace

template <class T>
void kv_append(cudaStream_t stream, const KvAppend<T>& p) {
  launch("kv_append", stream, kv_append_kernel<T>, dim3(static_cast<unsigned>(p.tokens)), dim3(copy_threads), 0, p);
}
template <class T>
void embedding_int8(cudaStream_t stream, Index tokens, Index width, const std::int32_t* ids, const std::int8_t* q,
                    const float* scales, T* out) {
  launch("embedding_int8", stream, embedding_int8_kernel<T>, dim3(static_cast<unsigned>(tokens)), dim3(copy_threads), 0,
         width, ids, q, scales, out);
}

template void kv_append(cudaStream_t, const KvAppend<float>&);
template void kv_append(cudaStream_t, const KvAppend<bf16>&);
template void embedding_int8(cudaStream_t, Index, Index, const std::int32_t*, const std::int8_t*, const float*, float*);
template void embedding_int8(cudaStream_t, Index, Index, const std::int32_t*, const std::int8_t*, const float*, bf16*);

}  // namespace longhaul::cuda
