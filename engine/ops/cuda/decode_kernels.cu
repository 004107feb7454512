#include "engine/ops/cuda/decode_kernels.h"
#include "engine/ops/cuda/row_access.h"

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

// What a piece of the keys gives one head: the largest score, the sum of weights, and head_dim sums of values.
__device__ inline Index part_floats(Index head_dim) {
  return head_dim + 2;
}
template <class T, class C>
__device__ inline float* part_of(const Decode<T, C>& p, Index sequence, Index head, Index piece) {
  const Index pieces = (p.longest + decode_piece - 1) / decode_piece;
  return p.parts + ((sequence * p.heads + head) * pieces + piece) * part_floats(p.head_dim);
}

// What is looked at of a cache.
template <class T, class C>
__device__ inline DecodeCache<C> seen_of(const Decode<T, C>& p, Index sequence) {
  DecodeCache<C> cache = p.caches[sequence];
  if (p.window == 0 || cache.length <= p.window) return cache;
  const Index before = (cache.length - p.window) * p.kv_heads * p.head_dim;
  return {cache.k + before, cache.v + before, p.window};
}

// A block for a piece of the keys of one key-value head, whose query heads it takes one after the other: what the first
// of them reads, the others find in the caches.
template <class T, class C>
__global__ void __launch_bounds__(block_threads) decode_piece_kernel(Decode<T, C> p) {
  const Index piece = blockIdx.x, kv_head = blockIdx.y, sequence = blockIdx.z;
  const DecodeCache<C> cache = seen_of(p, sequence);
  const Index begin = piece * decode_piece;
  if (begin >= cache.length) return;
  const Index keys = begin + decode_piece < cache.length ? decode_piece : cache.length - begin;
  const Index d = p.head_dim, stride = p.kv_heads * d, group = p.heads / p.kv_heads;
  const C *k = cache.k + begin * stride + kv_head * d, *v = cache.v + begin * stride + kv_head * d;
  auto* const scores = reinterpret_cast<float*>(shared_memory());  // [decode_piece]
  float* const parts = scores + decode_piece;                      // [block_warps]
  const int warp = static_cast<int>(threadIdx.x) / warp_size, lane = static_cast<int>(threadIdx.x) % warp_size;
  for (Index head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    const T* const q = p.q + (sequence * p.heads + head) * d;
    float top = -INFINITY;
    for (Index key = warp; key < keys; key += block_warps) {
      float sum = 0.0F;
      for (Index i = lane; i < d; i += warp_size) sum += to_float(q[i]) * p.scale * to_float(k[key * stride + i]);
      sum = sum_over_warp(sum);
      if (lane == 0) scores[key] = sum;
      top = larger(top, sum);
    }
    top = max_over_block(top, parts);
    sync_block();  // of one warp all the others' scores; also where a block has a single warp
    float total = 0.0F;
    for (Index key = threadIdx.x; key < keys; key += block_threads) {
      const float weight = __expf(scores[key] - top);
      scores[key] = weight;
      total += weight;
    }
    total = sum_over_block(total, parts);
    sync_block();
    float* const part = part_of(p, sequence, head, piece);
    if (threadIdx.x == 0) part[0] = top, part[1] = total;
    for (Index i = threadIdx.x; i < d; i += block_threads) {
      float sum = 0.0F;
      for (Index key = 0; key < keys; ++key) sum += scores[key] * to_float(v[key * stride + i]);
      part[2 + i] = sum;
    }
    sync_block();
  }
}

// A block for each head of each sequence: its pieces in their order.
template <class T, class C>
__global__ void __launch_bounds__(block_threads) decode_merge_kernel(Decode<T, C> p) {
  const Index head = blockIdx.x, sequence = blockIdx.y, d = p.head_dim;
  const Index pieces = (seen_of(p, sequence).length + decode_piece - 1) / decode_piece;
  float top = -INFINITY, total = 0.0F;
  for (Index piece = 0; piece < pieces; ++piece) top = larger(top, part_of(p, sequence, head, piece)[0]);
  for (Index piece = 0; piece < pieces; ++piece) {
    const float* const part = part_of(p, sequence, head, piece);
    total += part[1] * __expf(part[0] - top);
  }
  for (Index i = threadIdx.x; i < d; i += block_threads) {
    float sum = 0.0F;
    for (Index piece = 0; piece < pieces; ++piece) {
      const float* const part = part_of(p, sequence, head, piece);
      sum += part[2 + i] * __expf(part[0] - top);
    }
    p.out[(sequence * p.heads + head) * d + i] = from_float<T>(sum / total);
  }
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

Index decode_parts_floats(Index sequences, Index heads, Index head_dim, Index longest) {
  return sequences * heads * ((longest + decode_piece - 1) / decode_piece) * (head_dim + 2);
}
template <class T, class C>
void attention_decode(cudaStream_t stream, const Decode<T, C>& p) {
  const auto sequences = static_cast<unsigned>(p.sequences);
  launch("attention_decode", stream, decode_piece_kernel<T, C>,
         dim3(blocks_for(p.longest, decode_piece), static_cast<unsigned>(p.kv_heads), sequences), dim3(block_threads),
         (decode_piece + block_warps) * sizeof(float), p);
  launch("attention_decode_merge", stream, decode_merge_kernel<T, C>, dim3(static_cast<unsigned>(p.heads), sequences),
         dim3(block_threads), 0, p);
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
