#include "engine/ops/cuda/attention/key_range.h"
#include "engine/ops/cuda/attention/tensor_attention_kernels.h"
#include "engine/ops/cuda/common/row_access.h"
#include "engine/ops/cuda/common/tile_grid.h"

namespace longhaul::cuda {
namespace {

// A block of four warps has 64 queries (or keys), 16 to a warp, and walks the keys (or queries) in tiles of 64. Rows in
// shared memory lie 16 bytes further apart than they are long: eight of them then lie in different banks.
constexpr int tensor_tile = 64, warp_rows = 16, tensor_warps = tensor_tile / warp_rows,
              tensor_threads = tensor_warps * warp_size;
constexpr int step = 16;  // of a product: what one multiplication sums over
constexpr int pack = 8;   // bf16 in 16 bytes
constexpr float log2_e = 1.4426950408889634F;

template <int d>
inline constexpr int row_length = d + pack;
template <int d>
inline constexpr std::size_t tile_bytes = static_cast<std::size_t>(tensor_tile) * row_length<d> * sizeof(bf16);

// Rows [begin, begin + tensor_tile) of x, zeros past the end. There after wait_for_copies() and a barrier.
template <int d>
__device__ inline void ask_for_rows(const bf16* x, Index stride, Index begin, Index rows, bf16* to) {
  for (int i = static_cast<int>(threadIdx.x); i < tensor_tile * (d / pack); i += tensor_threads) {
    const int row = i / (d / pack), column = i % (d / pack) * pack;
    bf16* const here = to + row * row_length<d> + column;
    if (begin + row < rows)
      copy_later(here, x + (begin + row) * stride + column);
    else
      *reinterpret_cast<uint4*>(here) = uint4{0, 0, 0, 0};
  }
}

// The 16 by 16 elements at (row, column) of a tile: as the left factor of a product...
template <int d>
__device__ inline void left_factor(std::uint32_t (&a)[4], const bf16* of, int row, int column) {
  const int lane = lane_here();
  load_matrices(a, of + (row + lane % 16) * row_length<d> + column + lane / 16 * 8);
}
// ... as the right factors of two products that sum over columns (x y^T): the first is of rows row .. row + 7 ...
template <int d>
__device__ inline void right_factors_by_rows(std::uint32_t (&first)[2], std::uint32_t (&second)[2], const bf16* of,
                                             int row, int column) {
  const int lane = lane_here();
  std::uint32_t all[4];
  load_matrices(all, of + (row + lane / 16 * 8 + lane % 8) * row_length<d> + column + lane / 8 % 2 * 8);
  first[0] = all[0], first[1] = all[1], second[0] = all[2], second[1] = all[3];
}
// ... and of two that sum over rows (x y): the first is of columns column .. column + 7.
template <int d>
__device__ inline void right_factors_by_columns(std::uint32_t (&first)[2], std::uint32_t (&second)[2], const bf16* of,
                                                int row, int column) {
  const int lane = lane_here();
  std::uint32_t all[4];
  load_matrices_transposed(all, of + (row + lane % 16) * row_length<d> + column + lane / 16 * 8);
  first[0] = all[0], first[1] = all[1], second[0] = all[2], second[1] = all[3];
}
// sum[16, 16] = left rows (warp_rows of `a`) times the 16 rows of `b` from `row` on, transposed; two halves of columns.
template <int d>
__device__ inline void product_of_rows(float (&low)[4], float (&high)[4], const std::uint32_t (*a)[4], const bf16* b,
                                       int row) {
  LONGHAUL_UNROLL
  for (int i = 0; i < d / step; ++i) {
    std::uint32_t first[2], second[2];
    right_factors_by_rows<d>(first, second, b, row, i * step);
    multiply_add(low, a[i], first);
    multiply_add(high, a[i], second);
  }
}
template <int d>
__device__ inline void product_of_rows(float (&low)[4], float (&high)[4], const bf16* a, int a_row, const bf16* b,
                                       int row) {
  LONGHAUL_UNROLL
  for (int i = 0; i < d / step; ++i) {
    std::uint32_t left[4], first[2], second[2];
    left_factor<d>(left, a, a_row, i * step);
    right_factors_by_rows<d>(first, second, b, row, i * step);
    multiply_add(low, left, first);
    multiply_add(high, left, second);
  }
}
// sum[16, d] += a[16, 16] times the 16 rows of `b` from `row` on.
template <int d>
__device__ inline void add_product(float (&sum)[d / 8][4], const std::uint32_t (&a)[4], const bf16* b, int row) {
  LONGHAUL_UNROLL
  for (int i = 0; i < d / 16; ++i) {
    std::uint32_t first[2], second[2];
    right_factors_by_columns<d>(first, second, b, row, i * 16);
    multiply_add(sum[2 * i], a, first);
    multiply_add(sum[2 * i + 1], a, second);
  }
}
// What two products of a warp make, [16, 16], becomes the left factor of another one.
__device__ inline void as_left_factor(std::uint32_t (&a)[4], const float (&low)[4], const float (&high)[4]) {
  a[0] = pack_bf16(low[0], low[1]), a[1] = pack_bf16(low[2], low[3]);
  a[2] = pack_bf16(high[0], high[1]), a[3] = pack_bf16(high[2], high[3]);
}
// A thread's numbers of a product [16, 8]: i = 0, 1 of row lane / 4, 2, 3 of the eighth row after it.
__device__ inline int row_of(int i) {
  return lane_here() / 4 + i / 2 * 8;
}
__device__ inline int column_of(int i) {
  return lane_here() % 4 * 2 + i % 2;
}
// Rows of [16, d], times a factor for each of the thread's two rows.
template <int d>
__device__ inline void write_rows(const float (&x)[d / 8][4], const float (&factor)[2], bf16* to, Index stride,
                                  Index begin, Index rows) {
  LONGHAUL_UNROLL
  for (int half = 0; half < 2; ++half) {
    const Index row = begin + row_of(2 * half);
    if (row >= rows) continue;
    LONGHAUL_UNROLL
    for (int i = 0; i < d / 8; ++i)
      *reinterpret_cast<std::uint32_t*>(to + row * stride + i * 8 + column_of(0)) =
          pack_bf16(x[i][2 * half] * factor[half], x[i][2 * half + 1] * factor[half]);
  }
}

__device__ inline float over_row(float x, bool sum) {  // the four threads that share a row
  LONGHAUL_UNROLL
  for (int mask = 1; mask < 4; mask *= 2) {
    const float other = shuffle_xor(x, mask);
    x = sum ? x + other : fmaxf(x, other);
  }
  return x;
}

template <int d>
__global__ void __launch_bounds__(tensor_threads) forward_kernel(AttentionForward<bf16> p) {
  const AttentionSizes& s = p.sizes;
  // The last queries see most keys: their blocks begin first.
  const Index tiles = tiles_of(s.seq, tensor_tile);
  const TilePlace placed = tile_place(blockIdx.x, tiles);
  const Index begin = (tiles - 1 - placed.tile) * tensor_tile;
  const Place place = place_of(s, placed.row);
  auto* const q = reinterpret_cast<bf16*>(shared_memory());
  bf16* const k = q + tensor_tile * row_length<d>;
  bf16* const v = k + tensor_tile * row_length<d>;
  const int warp_row = static_cast<int>(threadIdx.x) / warp_size * warp_rows;
  const bf16 *keys_from = of_keys(s, p.k, place), *values_from = of_keys(s, p.v, place);
  const KeyRange all = keys_of_tile<tensor_tile>(s, place.batch, begin);
  const Index first_row = begin + warp_row;
  const KeyRange sees[2] = {keys_of(s, place.batch, first_row + row_of(0)),
                            keys_of(s, place.batch, first_row + row_of(2))};
  ask_for_rows<d>(of_queries(s, p.q, s.q_stride, place), s.q_stride, begin, s.seq, q);
  ask_for_rows<d>(keys_from, s.kv_stride, all.first, s.kv_seq, k);
  wait_for_copies();
  sync_block();
  std::uint32_t queries[d / step][4];
  LONGHAUL_UNROLL
  for (int i = 0; i < d / step; ++i) left_factor<d>(queries[i], q, warp_row, i * step);

  const float scale = s.scale * log2_e;
  float out[d / 8][4] = {}, top[2] = {-INFINITY, -INFINITY}, total[2] = {};  // top in units of log 2
  for (Index keys = all.first; keys < all.end; keys += tensor_tile) {
    ask_for_rows<d>(values_from, s.kv_stride, keys, s.kv_seq, v);
    float scores[tensor_tile / 8][4] = {};
    LONGHAUL_UNROLL
    for (int i = 0; i < tensor_tile / 16; ++i) product_of_rows<d>(scores[2 * i], scores[2 * i + 1], queries, k, i * 16);
    float here[2] = {top[0], top[1]};
    LONGHAUL_UNROLL
    for (int i = 0; i < tensor_tile / 8; ++i) {
      LONGHAUL_UNROLL
      for (int j = 0; j < 4; ++j) {
        const bool seen = sees[j / 2].has(keys + i * 8 + column_of(j));
        scores[i][j] = seen ? scores[i][j] * scale : -INFINITY;
        here[j / 2] = fmaxf(here[j / 2], scores[i][j]);
      }
    }
    LONGHAUL_UNROLL
    for (int half = 0; half < 2; ++half) {
      here[half] = over_row(here[half], false);
      const float base = here[half] == -INFINITY ? 0.0F : here[half];  // a row that has seen nothing yet
      const float keep = exp2f(top[half] - base);
      top[half] = here[half], here[half] = base;
      total[half] *= keep;
      LONGHAUL_UNROLL
      for (int i = 0; i < d / 8; ++i) out[i][2 * half] *= keep, out[i][2 * half + 1] *= keep;
    }
    LONGHAUL_UNROLL
    for (int i = 0; i < tensor_tile / 8; ++i) {
      LONGHAUL_UNROLL
      for (int j = 0; j < 4; ++j) {
        scores[i][j] = exp2f(scores[i][j] - here[j / 2]);
        total[j / 2] += scores[i][j];
      }
    }
    wait_for_copies();
    sync_block();  // the values are there, and nobody needs these keys any more
    if (keys + tensor_tile < all.end) ask_for_rows<d>(keys_from, s.kv_stride, keys + tensor_tile, s.kv_seq, k);
    LONGHAUL_UNROLL
    for (int i = 0; i < tensor_tile / step; ++i) {
      std::uint32_t weights[4];
      as_left_factor(weights, scores[2 * i], scores[2 * i + 1]);
      add_product<d>(out, weights, v, i * step);
    }
    wait_for_copies();
    sync_block();
  }

  float inverse[2];
  LONGHAUL_UNROLL
  for (int half = 0; half < 2; ++half) {
    total[half] = over_row(total[half], true);
    inverse[half] = total[half] == 0.0F ? 0.0F : 1.0F / total[half];
    const Index query = first_row + row_of(2 * half);
    if (p.lse != nullptr && query < s.seq && lane_here() % 4 == 0)
      p.lse[(place.batch * s.heads + place.head) * s.seq + query] = top[half] / log2_e + logf(total[half]);
  }
  write_rows<d>(out, inverse, p.out + (place.batch * s.seq) * s.out_stride + place.head * d, s.out_stride, first_row,
                s.seq);
}

// delta = sum of dout out over the head's elements. A warp for each query.
__global__ void __launch_bounds__(tensor_threads) delta_kernel(AttentionBackward<bf16> p) {
  const AttentionSizes& s = p.sizes;
  const TilePlace placed = tile_place(blockIdx.x, tiles_of(s.seq, tensor_warps));
  const Index query = placed.tile * tensor_warps + threadIdx.x / warp_size;
  const Place place = place_of(s, placed.row);
  float sum = 0.0F;
  const Index at = (place.batch * s.seq + query) * s.out_stride + place.head * s.head_dim;
  for (Index i = lane_here() * pack; query < s.seq && i < s.head_dim; i += warp_size * pack) {
    float a[pack], b[pack];
    load<pack>(p.dout + at + i, a), load<pack>(p.out + at + i, b);
    LONGHAUL_UNROLL
    for (int j = 0; j < pack; ++j) sum += a[j] * b[j];
  }
  sum = sum_over_warp(sum);
  if (query < s.seq && lane_here() == 0) p.delta[placed.row * s.seq + query] = sum;
}

template <int d>
__global__ void __launch_bounds__(tensor_threads) dq_kernel(AttentionBackward<bf16> p) {
  const AttentionSizes& s = p.sizes;
  const Index tiles = tiles_of(s.seq, tensor_tile);
  const TilePlace placed = tile_place(blockIdx.x, tiles);
  const Index begin = (tiles - 1 - placed.tile) * tensor_tile;
  const Place place = place_of(s, placed.row);
  auto* const q = reinterpret_cast<bf16*>(shared_memory());
  bf16* const dout = q + tensor_tile * row_length<d>;
  bf16* const k = dout + tensor_tile * row_length<d>;
  bf16* const v = k + tensor_tile * row_length<d>;
  const int warp_row = static_cast<int>(threadIdx.x) / warp_size * warp_rows;
  const KeyRange all = keys_of_tile<tensor_tile>(s, place.batch, begin);
  const Index first_row = begin + warp_row, of_head = placed.row * s.seq;
  KeyRange sees[2];
  float lse[2] = {}, delta[2] = {};
  LONGHAUL_UNROLL
  for (int half = 0; half < 2; ++half) {
    const Index query = first_row + row_of(2 * half);
    sees[half] = keys_of(s, place.batch, query);
    if (query < s.seq) lse[half] = p.lse[of_head + query] * log2_e, delta[half] = p.delta[of_head + query];
  }
  ask_for_rows<d>(of_queries(s, p.q, s.q_stride, place), s.q_stride, begin, s.seq, q);
  ask_for_rows<d>(of_queries(s, p.dout, s.out_stride, place), s.out_stride, begin, s.seq, dout);
  const float scale = s.scale * log2_e;
  float dq[d / 8][4] = {};
  for (Index keys = all.first; keys < all.end; keys += tensor_tile) {
    ask_for_rows<d>(of_keys(s, p.k, place), s.kv_stride, keys, s.kv_seq, k);
    ask_for_rows<d>(of_keys(s, p.v, place), s.kv_stride, keys, s.kv_seq, v);
    wait_for_copies();
    sync_block();
    for (int i = 0; i < tensor_tile / step; ++i) {
      float scores[2][4] = {}, products[2][4] = {};
      product_of_rows<d>(scores[0], scores[1], q, warp_row, k, i * step);
      product_of_rows<d>(products[0], products[1], dout, warp_row, v, i * step);
      LONGHAUL_UNROLL
      for (int j = 0; j < 8; ++j) {
        const int half = j % 4 / 2;
        float& score = scores[j / 4][j % 4];
        const bool seen = sees[half].has(keys + i * step + j / 4 * 8 + column_of(j % 4));
        score = seen ? exp2f(score * scale - lse[half]) * (products[j / 4][j % 4] - delta[half]) : 0.0F;
      }
      std::uint32_t gradients[4];
      as_left_factor(gradients, scores[0], scores[1]);
      add_product<d>(dq, gradients, k, i * step);
    }
    sync_block();
  }
  wait_for_copies();  // of a block whose queries see nothing
  write_rows<d>(dq, {s.scale, s.scale}, p.dq + place.batch * s.seq * s.q_stride + place.head * d, s.q_stride, first_row,
                s.seq);
}

// What a query brings to the gradients of keys.
struct QueryFacts {
  float lse, delta;
  int first, end;
};

// A block of keys of one key-value head walks the queries of its group's heads, one head after the other.
template <int d>
__global__ void __launch_bounds__(tensor_threads) dkv_kernel(AttentionBackward<bf16> p) {
  const AttentionSizes& s = p.sizes;
  const TilePlace placed = tile_place(blockIdx.x, tiles_of(s.kv_seq, tensor_tile));
  const Index begin = placed.tile * tensor_tile, group = s.heads / s.kv_heads;
  const Index batch = placed.row / s.kv_heads, kv_head = placed.row % s.kv_heads;
  auto* const k = reinterpret_cast<bf16*>(shared_memory());
  bf16* const v = k + tensor_tile * row_length<d>;
  bf16* const q = v + tensor_tile * row_length<d>;
  bf16* const dout = q + tensor_tile * row_length<d>;
  auto* const facts = reinterpret_cast<QueryFacts*>(dout + tensor_tile * row_length<d>);
  const int warp_row = static_cast<int>(threadIdx.x) / warp_size * warp_rows;
  const Index first_key = begin + warp_row;
  const Place first{batch, kv_head * group, kv_head};
  ask_for_rows<d>(of_keys(s, p.k, first), s.kv_stride, begin, s.kv_seq, k);
  ask_for_rows<d>(of_keys(s, p.v, first), s.kv_stride, begin, s.kv_seq, v);
  const float scale = s.scale * log2_e;
  float dk[d / 8][4] = {}, dv[d / 8][4] = {};
  // Queries before this one see none of the keys.
  const Index earliest =
      s.causal && begin > s.kv_seq - s.seq ? (begin - (s.kv_seq - s.seq)) / tensor_tile * tensor_tile : 0;
  const Index latest = end_of_queries(s, begin + tensor_tile);
  for (Index head = first.head; head < first.head + group; ++head) {
    const Place place{batch, head, kv_head};
    const Index of_head = (batch * s.heads + head) * s.seq;
    for (Index queries = earliest; queries < latest; queries += tensor_tile) {
      ask_for_rows<d>(of_queries(s, p.q, s.q_stride, place), s.q_stride, queries, s.seq, q);
      ask_for_rows<d>(of_queries(s, p.dout, s.out_stride, place), s.out_stride, queries, s.seq, dout);
      if (threadIdx.x < tensor_tile) {
        const Index query = queries + threadIdx.x;
        const KeyRange sees = keys_of(s, batch, query);
        QueryFacts f{0, 0, static_cast<int>(sees.first), static_cast<int>(sees.end)};
        if (query < s.seq) f.lse = p.lse[of_head + query] * log2_e, f.delta = p.delta[of_head + query];
        facts[threadIdx.x] = f;
      }
      wait_for_copies();
      sync_block();
      for (int i = 0; i < tensor_tile / step; ++i) {
        float scores[2][4] = {}, products[2][4] = {};  // of keys by queries
        product_of_rows<d>(scores[0], scores[1], k, warp_row, q, i * step);
        product_of_rows<d>(products[0], products[1], v, warp_row, dout, i * step);
        LONGHAUL_UNROLL
        for (int j = 0; j < 8; ++j) {
          const QueryFacts& f = facts[i * step + j / 4 * 8 + column_of(j % 4)];
          const Index key = first_key + row_of(j % 4);
          float &score = scores[j / 4][j % 4], &product = products[j / 4][j % 4];
          score = key >= f.first && key < f.end ? exp2f(score * scale - f.lse) : 0.0F;
          product = score == 0.0F ? 0.0F : score * (product - f.delta);
        }
        std::uint32_t weights[4];
        as_left_factor(weights, scores[0], scores[1]);
        add_product<d>(dv, weights, dout, i * step);
        as_left_factor(weights, products[0], products[1]);
        add_product<d>(dk, weights, q, i * step);
      }
      sync_block();
    }
  }
  wait_for_copies();  // of keys that no query sees
  const Index at = batch * s.kv_batch_stride + kv_head * d;
  write_rows<d>(dk, {s.scale, s.scale}, p.dk + at, s.kv_stride, first_key, s.kv_seq);
  write_rows<d>(dv, {1.0F, 1.0F}, p.dv + at, s.kv_stride, first_key, s.kv_seq);
}

template <int d>
void forward(cudaStream_t stream, const AttentionForward<bf16>& p) {
  const AttentionSizes& s = p.sizes;
  launch("tensor_attention_forward", stream, forward_kernel<d>,
         dim3(tile_blocks(tiles_of(s.seq, tensor_tile), s.batch * s.heads)), dim3(tensor_threads), 3 * tile_bytes<d>,
         p);
}
template <int d>
void backward(cudaStream_t stream, const AttentionBackward<bf16>& p) {
  const AttentionSizes& s = p.sizes;
  const Index heads = s.batch * s.heads, kv_heads = s.batch * s.kv_heads;
  launch("tensor_attention_delta", stream, delta_kernel, dim3(tile_blocks(tiles_of(s.seq, tensor_warps), heads)),
         dim3(tensor_threads), 0, p);
  launch("tensor_attention_dq", stream, dq_kernel<d>, dim3(tile_blocks(tiles_of(s.seq, tensor_tile), heads)),
         dim3(tensor_threads), 4 * tile_bytes<d>, p);
  launch("tensor_attention_dkv", stream, dkv_kernel<d>, dim3(tile_blocks(tiles_of(s.kv_seq, tensor_tile), kv_heads)),
         dim3(tensor_threads), 4 * tile_bytes<d> + tensor_tile * sizeof(QueryFacts), p);
}

bool knows(const AttentionSizes& s, std::initializer_list<const void*> starts) {
  if (s.head_dim != 64 && s.head_dim != 128) return false;
  for (const Index stride : {s.q_stride, s.kv_stride, s.out_stride, s.kv_batch_stride})
    if (stride % pack != 0) return false;
  return rows_are_aligned<bf16>(pack, starts);
}

}  // namespace

bool tensor_attention_knows(const AttentionForward<bf16>& p) {
  return knows(p.sizes, {p.q, p.k, p.v, p.out});
}
bool tensor_attention_knows(const AttentionBackward<bf16>& p) {
  return knows(p.sizes, {p.dout, p.q, p.k, p.v, p.out, p.dq, p.dk, p.dv});
}
void tensor_attention_forward(cudaStream_t stream, const AttentionForward<bf16>& p) {
  p.sizes.head_dim == 64 ? forward<64>(stream, p) : forward<128>(stream, p);
}
void tensor_attention_backward(cudaStream_t stream, const AttentionBackward<bf16>& p) {
  p.sizes.head_dim == 64 ? backward<64>(stream, p) : backward<128>(stream, p);
}

}  // namespace longhaul::cuda
