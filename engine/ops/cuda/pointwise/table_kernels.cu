#include "engine/ops/cuda/common/row_access.h"
#include "engine/ops/cuda/pointwise/table_kernels.h"

namespace longhaul::cuda {
namespace {

constexpr int copy_threads = 128;

template <class T, int n>
__global__ void __launch_bounds__(copy_threads)
    embedding_forward_kernel(Index hidden, const std::int32_t* ids, const T* table, T* out) {
  const Index token = blockIdx.x, id = ids[token];
  for (Index i = static_cast<Index>(threadIdx.x) * n; i < hidden; i += copy_threads * n) {
    float v[n] = {};
    if (id >= 0) load<n>(table + id * hidden + i, v);
    store<n>(v, out + token * hidden + i);
  }
}

// The first place of [begin, end) that has the id, or end. 32 ids at a time, from a multiple of 16 bytes on.
__device__ inline Index find_id(const std::int32_t* ids, Index begin, Index end, std::int32_t id) {
  Index t = begin;
  for (; t < end && reinterpret_cast<std::uintptr_t>(ids + t) % 16 != 0; ++t)
    if (ids[t] == id) return t;
  constexpr int packs = 8;  // under way at once
  for (; t + 4 * packs <= end; t += 4 * packs) {
    Pack<std::int32_t, 4> read[packs];
    LONGHAUL_UNROLL
    for (int i = 0; i < packs; ++i) read[i] = *reinterpret_cast<const Pack<std::int32_t, 4>*>(ids + t + 4 * i);
    bool found = false;
    LONGHAUL_UNROLL
    for (int i = 0; i < packs; ++i) LONGHAUL_UNROLL
    for (int j = 0; j < 4; ++j) found = found || read[i].value[j] == id;
    if (found) break;
  }
  while (t < end && ids[t] != id) ++t;
  return t;
}

// next[t]: the next token of the same id, or -1; first[t]: is t the first one of its id? Quadratic, but only ints,
// which all threads of a warp read together.
__global__ void __launch_bounds__(copy_threads)
    link_kernel(Index tokens, const std::int32_t* ids, std::int32_t* next, std::int32_t* first) {
  const Index token = static_cast<Index>(blockIdx.x) * copy_threads + threadIdx.x;
  if (token >= tokens) return;
  const std::int32_t id = ids[token];
  const Index later = find_id(ids, token + 1, tokens, id);
  next[token] = later < tokens ? static_cast<std::int32_t>(later) : -1;
  first[token] = find_id(ids, 0, token, id) == token ? 1 : 0;
}

// The block of the first token of an id walks all of them, for its stretch of columns.
template <class T, int n>
__global__ void __launch_bounds__(copy_threads)
    embedding_backward_kernel(Index hidden, const std::int32_t* ids, const T* dout, const std::int32_t* next,
                              const std::int32_t* first, float* dtable) {
  const Index token = blockIdx.x, id = ids[token];
  if (id < 0 || first[token] == 0) return;
  const Index i = (static_cast<Index>(blockIdx.y) * copy_threads + threadIdx.x) * n;
  if (i >= hidden) return;
  float sum[n];
  float* const to = dtable + id * hidden + i;
  LONGHAUL_UNROLL
  for (int j = 0; j < n; ++j) sum[j] = to[j];
  for (Index t = token; t >= 0; t = next[t]) {
    float v[n];
    load<n>(dout + t * hidden + i, v);
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) sum[j] += v[j];
  }
  LONGHAUL_UNROLL
  for (int j = 0; j < n; ++j) to[j] = sum[j];
}

}  // namespace

template <class T>
void embedding_forward(cudaStream_t stream, Index tokens, Index hidden, const std::int32_t* ids, const T* table,
                       T* out) {
  with_width<T>(hidden, {table, out}, [&](auto width) {
    launch("embedding_forward", stream, embedding_forward_kernel<T, decltype(width)::value>,
           dim3(static_cast<unsigned>(tokens)), dim3(copy_threads), 0, hidden, ids, table, out);
  });
}

template <class T>
void embedding_backward(cudaStream_t stream, Index tokens, Index hidden, const std::int32_t* ids, const T* dout,
                        float* dtable, std::int32_t* links) {
  std::int32_t *next = links, *first = links + tokens;
  launch("link", stream, link_kernel, dim3(blocks_for(tokens, copy_threads)), dim3(copy_threads), 0, tokens, ids, next,
         first);
  with_width<T>(hidden, {dout}, [&](auto width) {
    constexpr int n = decltype(width)::value;
    launch("embedding_backward", stream, embedding_backward_kernel<T, n>,
           dim3(static_cast<unsigned>(tokens), blocks_for(hidden, copy_threads * n)), dim3(copy_threads), 0, hidden,
           ids, dout, static_cast<const std::int32_t*>(next), static_cast<const std::int32_t*>(first), dtable);
  });
}

template void embedding_forward(cudaStream_t, Index, Index, const std::int32_t*, const float*, float*);
template void embedding_forward(cudaStream_t, Index, Index, const std::int32_t*, const bf16*, bf16*);
template void embedding_backward(cudaStream_t, Index, Index, const std::int32_t*, const float*, float*, std::int32_t*);
template void embedding_backward(cudaStream_t, Index, Index, const std::int32_t*, const bf16*, float*, std::int32_t*);

}  // namespace longhaul::cuda
