#include "engine/ops/cuda/attention/attention_kernels.h"
#include "engine/ops/cuda/attention/key_range.h"
#include "engine/ops/cuda/common/row_access.h"
#include "engine/ops/cuda/common/tile_grid.h"

namespace longhaul::cuda {
namespace {

// A tile: 32 queries by 32 keys. A row of threads belongs to a query (in the gradient of keys: to a key), and each of
// its eight threads has every eighth of the head's elements.
constexpr int tile = 32, row_threads = 8, tile_threads = tile * row_threads;
constexpr int own_max = attention_head_dim_max / row_threads;
constexpr int delta_queries = tile_threads / warp_size;  // of a block, a warp each

// Rows [begin, begin + tile) of x into shared memory as f32 [tile, head_dim + 1]; zeros past the end.
template <class T>
__device__ void take_rows(const T* x, Index stride, Index begin, Index rows, Index head_dim, float* to) {
  for (Index i = threadIdx.x; i < tile * head_dim; i += tile_threads) {
    const Index row = i / head_dim, column = i % head_dim;
    to[row * (head_dim + 1) + column] = begin + row < rows ? to_float(x[(begin + row) * stride + column]) : 0.0F;
  }
}
__device__ inline float dot(const float* a, const float* b, Index n) {
  float sum = 0.0F;
  for (Index i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

inline std::size_t tiles_bytes(Index head_dim, int rows, int squares) {
  return static_cast<std::size_t>(rows * tile * (head_dim + 1) + squares * tile * (tile + 1)) * sizeof(float);
}

template <class T>
__global__ void __launch_bounds__(tile_threads) attention_forward_kernel(AttentionForward<T> p) {
  const AttentionSizes& s = p.sizes;
  const TilePlace placed = tile_place(blockIdx.x, tiles_of(s.seq, tile));
  const Index d = s.head_dim, begin = placed.tile * tile;
  const Place place = place_of(s, placed.row);
  float* const q = reinterpret_cast<float*>(shared_memory());
  float* const k = q + tile * (d + 1);
  float* const v = k + tile * (d + 1);
  float* const scores = v + tile * (d + 1);
  const int row = static_cast<int>(threadIdx.x) / row_threads, lane = static_cast<int>(threadIdx.x) % row_threads;
  const Index query = begin + row;
  const KeyRange sees = keys_of(s, place.batch, query), all = keys_of_tile<tile>(s, place.batch, begin);
  take_rows(of_queries(s, p.q, s.q_stride, place), s.q_stride, begin, s.seq, d, q);
  float out[own_max] = {}, top = -INFINITY, total = 0.0F;
  for (Index keys = all.first; keys < all.end; keys += tile) {
    sync_block();
    take_rows(of_keys(s, p.k, place), s.kv_stride, keys, s.kv_seq, d, k);
    take_rows(of_keys(s, p.v, place), s.kv_stride, keys, s.kv_seq, d, v);
    sync_block();
    float here = top;
    for (int j = lane; j < tile; j += row_threads) {
      const bool seen = sees.has(keys + j);
      const float score = seen ? dot(q + row * (d + 1), k + j * (d + 1), d) * s.scale : -INFINITY;
      scores[row * (tile + 1) + j] = score;
      here = fmaxf(here, score);
    }
    LONGHAUL_UNROLL
    for (int mask = 1; mask < row_threads; mask *= 2) here = fmaxf(here, shuffle_xor(here, mask));
    sync_warp();  // a row's scores are written by the threads of one warp
    if (here == -INFINITY) continue;
    const float keep = __expf(top - here);
    total *= keep;
    LONGHAUL_UNROLL
    for (int i = 0; i < own_max; ++i) out[i] *= keep;
    for (int j = 0; j < tile; ++j) {
      const float weight = __expf(scores[row * (tile + 1) + j] - here);
      total += weight;
      LONGHAUL_UNROLL
      for (int i = 0; i < own_max; ++i)
        if (lane + i * row_threads < d) out[i] += weight * v[j * (d + 1) + lane + i * row_threads];
    }
    top = here;
  }
  if (query >= s.seq) return;
  T* const to = p.out + (place.batch * s.seq + query) * s.out_stride + place.head * d;
  LONGHAUL_UNROLL
  for (int i = 0; i < own_max; ++i)
    if (lane + i * row_threads < d) to[lane + i * row_threads] = from_float<T>(total == 0.0F ? 0.0F : out[i] / total);
  if (p.lse != nullptr && lane == 0) p.lse[(place.batch * s.heads + place.head) * s.seq + query] = top + logf(total);
}

// delta = sum of dout out over the head's elements. A warp for each query.
template <class T>
__global__ void __launch_bounds__(tile_threads) attention_delta_kernel(AttentionBackward<T> p) {
  const AttentionSizes& s = p.sizes;
  const TilePlace placed = tile_place(blockIdx.x, tiles_of(s.seq, delta_queries));
  const Index query = placed.tile * delta_queries + threadIdx.x / warp_size;
  const Place place = place_of(s, placed.row);
  float sum = 0.0F;
  if (query < s.seq) {
    const Index at = (place.batch * s.seq + query) * s.out_stride + place.head * s.head_dim;
    for (Index i = threadIdx.x % warp_size; i < s.head_dim; i += warp_size)
      sum += to_float(p.dout[at + i]) * to_float(p.out[at + i]);
  }
  sum = sum_over_warp(sum);
  if (query < s.seq && threadIdx.x % warp_size == 0) p.delta[placed.row * s.seq + query] = sum;
}

template <class T>
__global__ void __launch_bounds__(tile_threads) attention_dq_kernel(AttentionBackward<T> p) {
  const AttentionSizes& s = p.sizes;
  const TilePlace placed = tile_place(blockIdx.x, tiles_of(s.seq, tile));
  const Index d = s.head_dim, begin = placed.tile * tile;
  const Place place = place_of(s, placed.row);
  float* const q = reinterpret_cast<float*>(shared_memory());
  float* const dout = q + tile * (d + 1);
  float* const k = dout + tile * (d + 1);
  float* const v = k + tile * (d + 1);
  float* const dscores = v + tile * (d + 1);
  const int row = static_cast<int>(threadIdx.x) / row_threads, lane = static_cast<int>(threadIdx.x) % row_threads;
  const Index query = begin + row, of_head = placed.row * s.seq + query;
  const KeyRange sees = keys_of(s, place.batch, query), all = keys_of_tile<tile>(s, place.batch, begin);
  const float lse = query < s.seq ? p.lse[of_head] : 0.0F, delta = query < s.seq ? p.delta[of_head] : 0.0F;
  take_rows(of_queries(s, p.q, s.q_stride, place), s.q_stride, begin, s.seq, d, q);
  take_rows(of_queries(s, p.dout, s.out_stride, place), s.out_stride, begin, s.seq, d, dout);
  float dq[own_max] = {};
  for (Index keys = all.first; keys < all.end; keys += tile) {
    sync_block();
    take_rows(of_keys(s, p.k, place), s.kv_stride, keys, s.kv_seq, d, k);
    take_rows(of_keys(s, p.v, place), s.kv_stride, keys, s.kv_seq, d, v);
    sync_block();
    for (int j = lane; j < tile; j += row_threads) {
      const bool seen = sees.has(keys + j);
      const float weight = seen ? __expf(dot(q + row * (d + 1), k + j * (d + 1), d) * s.scale - lse) : 0.0F;
      dscores[row * (tile + 1) + j] =
          seen ? weight * (dot(dout + row * (d + 1), v + j * (d + 1), d) - delta) * s.scale : 0.0F;
    }
    sync_warp();
    for (int j = 0; j < tile; ++j) {
      const float gradient = dscores[row * (tile + 1) + j];
      LONGHAUL_UNROLL
      for (int i = 0; i < own_max; ++i)
        if (lane + i * row_threads < d) dq[i] += gradient * k[j * (d + 1) + lane + i * row_threads];
    }
  }
  if (query >= s.seq) return;
  T* const to = p.dq + (place.batch * s.seq + query) * s.q_stride + place.head * d;
  LONGHAUL_UNROLL
  for (int i = 0; i < own_max; ++i)
    if (lane + i * row_threads < d) to[lane + i * row_threads] = from_float<T>(dq[i]);
}

// A tile of keys of one key-value head walks the queries of its group's heads, one head after the other.
template <class T>
__global__ void __launch_bounds__(tile_threads) attention_dkv_kernel(AttentionBackward<T> p) {
  const AttentionSizes& s = p.sizes;
  const TilePlace placed = tile_place(blockIdx.x, tiles_of(s.kv_seq, tile));
  const Index d = s.head_dim, begin = placed.tile * tile, group = s.heads / s.kv_heads;
  const Index batch = placed.row / s.kv_heads, kv_head = placed.row % s.kv_heads;
  float* const k = reinterpret_cast<float*>(shared_memory());
  float* const v = k + tile * (d + 1);
  float* const q = v + tile * (d + 1);
  float* const dout = q + tile * (d + 1);
  float* const weights = dout + tile * (d + 1);
  float* const dscores = weights + tile * (tile + 1);
  const int row = static_cast<int>(threadIdx.x) / row_threads, lane = static_cast<int>(threadIdx.x) % row_threads;
  const Index key = begin + row;
  const Place first{batch, kv_head * group, kv_head};
  take_rows(of_keys(s, p.k, first), s.kv_stride, begin, s.kv_seq, d, k);
  take_rows(of_keys(s, p.v, first), s.kv_stride, begin, s.kv_seq, d, v);
  float dk[own_max] = {}, dv[own_max] = {};
  // Queries before this one see none of the tile's keys.
  const Index earliest = s.causal && begin > s.kv_seq - s.seq ? (begin - (s.kv_seq - s.seq)) / tile * tile : 0;
  const Index latest = end_of_queries(s, begin + tile);
  for (Index head = first.head; head < first.head + group; ++head) {
    const Place place{batch, head, kv_head};
    const Index of_head = (batch * s.heads + head) * s.seq;
    for (Index queries = earliest; queries < latest; queries += tile) {
      sync_block();
      take_rows(of_queries(s, p.q, s.q_stride, place), s.q_stride, queries, s.seq, d, q);
      take_rows(of_queries(s, p.dout, s.out_stride, place), s.out_stride, queries, s.seq, d, dout);
      sync_block();
      for (int j = lane; j < tile; j += row_threads) {
        const KeyRange sees = keys_of(s, batch, queries + j);
        const bool seen = sees.has(key);
        float weight = 0.0F, dscore = 0.0F;
        if (seen) {
          weight = __expf(dot(q + j * (d + 1), k + row * (d + 1), d) * s.scale - p.lse[of_head + queries + j]);
          dscore = weight * (dot(dout + j * (d + 1), v + row * (d + 1), d) - p.delta[of_head + queries + j]) * s.scale;
        }
        weights[row * (tile + 1) + j] = weight, dscores[row * (tile + 1) + j] = dscore;
      }
      sync_warp();
      for (int j = 0; j < tile; ++j) {
        const float weight = weights[row * (tile + 1) + j], dscore = dscores[row * (tile + 1) + j];
        LONGHAUL_UNROLL
        for (int i = 0; i < own_max; ++i) {
          const Index column = lane + i * row_threads;
          if (column >= d) continue;
          dv[i] += weight * dout[j * (d + 1) + column];
          dk[i] += dscore * q[j * (d + 1) + column];
        }
      }
    }
  }
  if (key >= s.kv_seq) return;
  const Index at = batch * s.kv_batch_stride + key * s.kv_stride + kv_head * d;
  LONGHAUL_UNROLL
  for (int i = 0; i < own_max; ++i)
    if (const Index column = lane + i * row_threads; column < d)
      p.dk[at + column] = from_float<T>(dk[i]), p.dv[at + column] = from_float<T>(dv[i]);
}

}  // namespace

template <class T>
void attention_forward(cudaStream_t stream, const AttentionForward<T>& p) {
  const AttentionSizes& s = p.sizes;
  launch("attention_forward", stream, attention_forward_kernel<T>,
         dim3(tile_blocks(tiles_of(s.seq, tile), s.batch * s.heads)), dim3(tile_threads), tiles_bytes(s.head_dim, 3, 1),
         p);
}

template <class T>
void attention_backward(cudaStream_t stream, const AttentionBackward<T>& p) {
  const AttentionSizes& s = p.sizes;
  const Index heads = s.batch * s.heads, kv_heads = s.batch * s.kv_heads;
  launch("attention_delta", stream, attention_delta_kernel<T>, dim3(tile_blocks(tiles_of(s.seq, delta_queries), heads)),
         dim3(tile_threads), 0, p);
  launch("attention_dq", stream, attention_dq_kernel<T>, dim3(tile_blocks(tiles_of(s.seq, tile), heads)),
         dim3(tile_threads), tiles_bytes(s.head_dim, 4, 1), p);
  launch("attention_dkv", stream, attention_dkv_kernel<T>, dim3(tile_blocks(tiles_of(s.kv_seq, tile), kv_heads)),
         dim3(tile_threads), tiles_bytes(s.head_dim, 4, 2), p);
}

template void attention_forward(cudaStream_t, const AttentionForward<float>&);
template void attention_forward(cudaStream_t, const AttentionForward<bf16>&);
template void attention_backward(cudaStream_t, const AttentionBackward<float>&);
template void attention_backward(cudaStream_t, const AttentionBackward<bf16>&);

}  // namespace longhaul::cuda
