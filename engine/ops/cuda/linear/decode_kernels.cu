#include "engine/ops/cuda/common/row_access.h"
#include "engine/ops/cuda/linear/decode_kernels.h"
#include "engine/ops/cuda/linear/tensor_few_rows_kernels.h"

namespace longhaul::cuda {
namespace {

constexpr int block_threads = 128, block_warps = block_threads / warp_size;
constexpr int packs_ahead = 4;

// A warp for each row of W, which it reads once, some packs of n elements ahead; its lanes take neighbouring packs. x
// stays in the caches.
template <class X, class W, class Y, int n, int tokens_max>
__global__ void __launch_bounds__(block_threads) few_rows_kernel(FewRows<X, W, Y> p) {
  constexpr Index step = warp_size * n;
  const Index row = static_cast<Index>(blockIdx.x) * block_warps + threadIdx.x / warp_size;
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  float sums[tokens_max] = {};
  if (row < p.out) {
    const W* const weights = p.weight + row * p.in;
    for (Index begin = static_cast<Index>(lane) * n; begin < p.in; begin += packs_ahead * step) {
      Pack<W, n> packs[packs_ahead];
      LONGHAUL_UNROLL
      for (int a = 0; a < packs_ahead; ++a)
        if (begin + a * step < p.in) packs[a] = *reinterpret_cast<const Pack<W, n>*>(weights + begin + a * step);
      LONGHAUL_UNROLL
      for (int a = 0; a < packs_ahead; ++a) {
        const Index i = begin + a * step;
        if (i >= p.in) break;
        LONGHAUL_UNROLL
        for (int t = 0; t < tokens_max; ++t) {
          if (t >= p.tokens) break;
          float x[n];
          load_packs<n>(p.x + t * p.in + i, x);
          LONGHAUL_UNROLL
          for (int j = 0; j < n; ++j) sums[t] += x[j] * to_float(packs[a].value[j]);
        }
      }
    }
  }
  LONGHAUL_UNROLL
  for (int t = 0; t < tokens_max; ++t) {
    const float sum = sum_over_warp(sums[t]);
    if (lane == 0 && row < p.out && t < p.tokens)
      p.y[t * p.out + row] = from_float<Y>(p.scales != nullptr ? sum * p.scales[row] : sum);
  }
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    dequantize_kernel(Index rows, Index columns, const std::int8_t* q, const float* scales, T* out) {
  const Index i = static_cast<Index>(blockIdx.x) * block_threads + threadIdx.x;
  if (i < rows * columns) out[i] = from_float<T>(static_cast<float>(q[i]) * scales[i / columns]);
}

// A warp for each head of each token.
template <class T>
__global__ void __launch_bounds__(block_threads) merge_kernel(Merge<T> p) {
  const Index at = static_cast<Index>(blockIdx.x) * block_warps + threadIdx.x / warp_size;
  if (at >= p.batch * p.seq * p.heads) return;
  const Index row = at / p.heads, head = at % p.heads;
  const Index of_lse = (row / p.seq * p.heads + head) * p.seq + row % p.seq;
  const float mine = p.lse[of_lse], other = p.part_lse[of_lse], top = fmaxf(mine, other);
  sync_warp();  // all have read it
  if (other == -INFINITY) return;
  const float total = top + logf(__expf(mine - top) + __expf(other - top));
  const float keep = __expf(mine - total), take = __expf(other - total);
  for (Index i = threadIdx.x % warp_size; i < p.head_dim; i += warp_size) {
    float& out = p.out[at * p.head_dim + i];
    out = (mine == -INFINITY ? 0.0F : out * keep) + to_float(p.part[at * p.head_dim + i]) * take;
  }
  if (threadIdx.x % warp_size == 0) p.lse[of_lse] = total;
}

template <int n, class X, class W, class Y>
void start_product(cudaStream_t stream, const FewRows<X, W, Y>& p) {
  const auto kernel = p.tokens == 1   ? few_rows_kernel<X, W, Y, n, 1>
                      : p.tokens <= 4 ? few_rows_kernel<X, W, Y, n, 4>
                                      : few_rows_kernel<X, W, Y, n, 8>;
  launch("few_rows_product", stream, kernel, dim3(blocks_for(p.out, block_warps)), dim3(block_threads), 0, p);
}

}  // namespace

template <class X, class W, class Y>
void few_rows_product(cudaStream_t stream, const FewRows<X, W, Y>& p) {
  if constexpr (std::is_same_v<X, bf16> && !std::is_same_v<W, float>)
    if (few_rows_by_tensor_cores(stream, p)) return;
  if (rows_are_aligned<W>(p.in, {p.weight}) && rows_are_aligned<X>(p.in, {p.x}))
    start_product<pack_of<W>>(stream, p);
  else
    start_product<1>(stream, p);
}
template <class T>
void dequantize_rows(cudaStream_t stream, Index rows, Index columns, const std::int8_t* q, const float* scales,
                     T* out) {
  launch("dequantize_rows", stream, dequantize_kernel<T>, dim3(blocks_for(rows * columns, block_threads)),
         dim3(block_threads), 0, rows, columns, q, scales, out);
}

namespace {
// One new token of each sequence, over caches that have memory of their own.
template <class T, class C>
Paged<C> paged_of(const Decode<T, C>& d) {
  Paged<C> p{};
  p.sequences = d.sequences, p.tokens = 1, p.heads = d.heads, p.kv_heads = d.kv_heads, p.head_dim = d.head_dim;
  p.longest = d.longest, p.last_keys = d.window, p.scale = d.scale;
  p.caches = d.caches, p.q = d.q, p.q_is_bf16 = std::is_same_v<T, bf16>, p.parts = d.parts;
  return p;
}
}  // namespace

Index decode_parts_floats(Index sequences, Index heads, Index head_dim, Index longest) {
  Paged<float> p{};
  p.sequences = sequences, p.tokens = 1, p.heads = heads, p.head_dim = head_dim, p.longest = longest;
  return paged_parts_floats(p);
}
template <class T, class C>
void attention_decode(cudaStream_t stream, const Decode<T, C>& p) {
  attention_decode_paged(stream, paged_of(p), p.out);
}
template <class T>
void attention_merge(cudaStream_t stream, const Merge<T>& p) {
  launch("attention_merge", stream, merge_kernel<T>, dim3(blocks_for(p.batch * p.seq * p.heads, block_warps)),
         dim3(block_threads), 0, p);
}

#define LONGHAUL_FEW_ROWS(X, Y)                                                    \
  template void few_rows_product(cudaStream_t, const FewRows<X, float, Y>&);       \
  template void few_rows_product(cudaStream_t, const FewRows<X, bf16, Y>&);        \
  template void few_rows_product(cudaStream_t, const FewRows<X, std::int8_t, Y>&); \
  template void few_rows_product(cudaStream_t, const FewRows<X, E4m3, Y>&);
LONGHAUL_FEW_ROWS(float, float)
LONGHAUL_FEW_ROWS(float, bf16)
LONGHAUL_FEW_ROWS(bf16, float)
LONGHAUL_FEW_ROWS(bf16, bf16)
template void dequantize_rows(cudaStream_t, Index, Index, const std::int8_t*, const float*, float*);
template void dequantize_rows(cudaStream_t, Index, Index, const std::int8_t*, const float*, bf16*);
template void attention_decode(cudaStream_t, const Decode<float, float>&);
template void attention_decode(cudaStream_t, const Decode<float, bf16>&);
template void attention_decode(cudaStream_t, const Decode<bf16, float>&);
template void attention_decode(cudaStream_t, const Decode<bf16, bf16>&);
template void attention_merge(cudaStream_t, const Merge<float>&);
template void attention_merge(cudaStream_t, const Merge<bf16>&);

}  // namespace longhaul::cuda
