// Two kernels compute a piece. The fast one is for rows of whole packs of 16 bytes: some lanes together read a key,
// four keys ahead, and multiply it with all query rows of its head, which they hold in registers. The other one takes
// any shape. Both leave the same three things: the largest score, the sum of weights, the sum of weighted values.
#include "engine/ops/cuda/paged_kernels.h"
#include "engine/ops/cuda/row_access.h"

namespace longhaul::cuda {
namespace {

constexpr int block_threads = 128, block_warps = block_threads / warp_size;
constexpr int keys_ahead = 4;

// A block's piece of the keys of one key-value head of one sequence, and the query rows that look at it: token by
// token, the heads of the group.
struct Piece {
  Index sequence, kv_head, begin, keys;  // keys: none where the sequence ends before it
  Index length;
  Index group, rows;
};
// The first key that a query sees which is the `count`-th of its sequence.
template <class C>
__device__ inline Index first_seen(const Paged<C>& p, Index count) {
  return p.window > 0 && count > p.window ? count - p.window : 0;
}
template <class C>
__device__ inline Piece this_piece(const Paged<C>& p) {
  Piece piece{};
  piece.sequence = blockIdx.z, piece.kv_head = blockIdx.y;
  piece.begin = static_cast<Index>(blockIdx.x) * paged_piece;
  piece.length = p.lengths[piece.sequence];
  if (piece.length > p.longest) piece.length = 0;  // the merge says so
  const Index left = piece.length - piece.begin;
  piece.keys = left < 0 ? 0 : left < paged_piece ? left : paged_piece;
  if (piece.begin + paged_piece <= first_seen(p, piece.length - p.tokens + 1)) piece.keys = 0;
  piece.group = p.heads / p.kv_heads, piece.rows = p.tokens * piece.group;
  return piece;
}
// Where query row r stands among all of the batch.
template <class C>
__device__ inline Index query_of(const Paged<C>& p, const Piece& piece, Index r) {
  const Index token = r / piece.group, head = piece.kv_head * piece.group + r % piece.group;
  return (piece.sequence * p.tokens + token) * p.heads + head;
}
// The keys of the piece that it sees: [first, end).
struct KeysSeen {
  Index first, end;
};
template <class C>
__device__ inline KeysSeen keys_seen(const Paged<C>& p, const Piece& piece, Index r) {
  const Index count = piece.length - p.tokens + r / piece.group + 1;
  const Index first = first_seen(p, count) - piece.begin, end = count - piece.begin;
  return {first < 0 ? 0 : first, end < 0 ? 0 : end < piece.keys ? end : piece.keys};
}
template <class C>
__device__ inline float query(const Paged<C>& p, Index at) {
  return p.scale * (p.q_is_bf16 ? to_float(static_cast<const bf16*>(p.q)[at]) : static_cast<const float*>(p.q)[at]);
}
template <class C>
__device__ inline float* part_of(const Paged<C>& p, Index row, Index piece) {
  const Index pieces = (p.longest + paged_piece - 1) / paged_piece;
  return p.parts + (row * pieces + piece) * (p.head_dim + 2);
}

// The pool's row of each key of the piece; -1 where the table names no page of the pool. By all threads.
template <class C>
__device__ inline void find_rows(const Paged<C>& p, const Piece& piece, std::int32_t* rows) {
  for (Index key = threadIdx.x; key < piece.keys; key += block_threads) {
    const Index at = piece.begin + key;
    const std::int32_t page = p.table[piece.sequence * p.pages_each + at / p.page_tokens];
    rows[key] = page < 0 || page >= p.pages ? -1 : static_cast<std::int32_t>(page * p.page_tokens + at % p.page_tokens);
  }
  sync_block();
}

// Scores of `count` rows, from row `first` on, into weights; largest score and sum of weights into their parts. A warp
// for each row.
template <class C>
__device__ inline void weigh(const Paged<C>& p, const Piece& piece, Index first, Index count, float* scores) {
  const int warp = static_cast<int>(threadIdx.x) / warp_size, lane = static_cast<int>(threadIdx.x) % warp_size;
  for (Index r = warp; r < count; r += block_warps) {
    float* const row = scores + r * paged_piece;
    const KeysSeen seen = keys_seen(p, piece, first + r);
    float top = -INFINITY, total = 0.0F;
    for (Index key = seen.first + lane; key < seen.end; key += warp_size) top = larger(top, row[key]);
    top = max_over_warp(top);
    for (Index key = lane; key < paged_piece; key += warp_size) {
      const float weight = key >= seen.first && key < seen.end ? __expf(row[key] - top) : 0.0F;
      row[key] = weight;
      total += weight;
    }
    total = sum_over_warp(total);
    if (lane == 0) {
      float* const part = part_of(p, query_of(p, piece, first + r), piece.begin / paged_piece);
      part[0] = top, part[1] = total;
    }
  }
  sync_block();
}

template <class C>
__global__ void __launch_bounds__(block_threads) any_shape_kernel(Paged<C> p) {
  const Piece piece = this_piece(p);
  if (piece.keys == 0) return;
  auto* const scores = reinterpret_cast<float*>(shared_memory());            // [paged_piece]
  auto* const rows = reinterpret_cast<std::int32_t*>(scores + paged_piece);  // [paged_piece]
  const Index d = p.head_dim, stride = p.kv_heads * d, column = piece.kv_head * d;
  const int warp = static_cast<int>(threadIdx.x) / warp_size, lane = static_cast<int>(threadIdx.x) % warp_size;
  find_rows(p, piece, rows);
  for (Index r = 0; r < piece.rows; ++r) {
    const Index at = query_of(p, piece, r);
    for (Index key = warp; key < piece.keys; key += block_warps) {
      float sum = rows[key] < 0 ? NAN : 0.0F;
      if (rows[key] >= 0)
        for (Index i = lane; i < d; i += warp_size)
          sum += query(p, at * d + i) * to_float(p.keys[rows[key] * stride + column + i]);
      sum = sum_over_warp(sum);
      if (lane == 0) scores[key] = sum;
    }
    sync_block();
    weigh(p, piece, r, 1, scores);
    float* const part = part_of(p, at, piece.begin / paged_piece);
    for (Index i = threadIdx.x; i < d; i += block_threads) {
      float sum = 0.0F;
      for (Index key = 0; key < piece.keys; ++key)
        sum += scores[key] * (rows[key] < 0 ? 0.0F : to_float(p.values[rows[key] * stride + column + i]));
      part[2 + i] = sum;
    }
    sync_block();
  }
}

// Sums over the `lanes` neighbours of a lane, of `count` values at once: lanes that differ in a bit split the values
// between them while there are several, so that count values cost about count exchanges and not count log2(lanes).
// Leaves max(count / lanes, 1) sums in front; the first of them is number `first` of all.
template <int count, int lanes, int mask = 1>
__device__ inline void sum_many(float* values, int lane, int& first) {
  if constexpr (mask < lanes) {
    if constexpr (count > 1) {
      const bool upper = (lane & mask) != 0;
      LONGHAUL_UNROLL
      for (int i = 0; i < count / 2; ++i) {
        const float keep = upper ? values[i + count / 2] : values[i], give = upper ? values[i] : values[i + count / 2];
        values[i] = keep + shuffle_xor(give, mask);
      }
      first += upper ? count / 2 : 0;
      sum_many<count / 2, lanes, mask * 2>(values, lane, first);
    } else {
      values[0] += shuffle_xor(values[0], mask);
      sum_many<1, lanes, mask * 2>(values, lane, first);
    }
  }
}

// What a lane has of a key or a value: a pack, or nothing behind the last one.
template <class C, int n>
__device__ inline void load_part(const C* pool, std::int32_t row, Index stride, Index at, bool inside, float nothing,
                                 float (&to)[n]) {
  if (inside && row >= 0) return load<n>(pool + row * stride + at, to);
  LONGHAUL_UNROLL
  for (int i = 0; i < n; ++i) to[i] = inside ? nothing : 0.0F;
}

// `lanes` lanes for a key; `rows` query rows at a time.
template <class C, int lanes, int rows>
struct Fast {
  static constexpr int n = pack_of<C>;
  static constexpr int keys_at_once = block_threads / lanes;  // of the block
  static constexpr std::size_t shared_bytes(Index head_dim) {
    return static_cast<std::size_t>(paged_piece * 4 + rows * paged_piece * 4 + block_warps * rows * head_dim * 4);
  }

  // Scores of all keys of the piece with q [rows, n] of this lane.
  static __device__ void multiply_keys(const Paged<C>& p, const Piece& piece, const std::int32_t* at,
                                       const float (&q)[rows][n], float* scores) {
    const int lane = static_cast<int>(threadIdx.x) % lanes, mine = static_cast<int>(threadIdx.x) / lanes;
    const Index d = p.head_dim, stride = p.kv_heads * d, column = piece.kv_head * d + lane * n;
    const bool inside = static_cast<Index>(lane) * n < d;
    for (Index begin = 0; begin < piece.keys; begin += keys_ahead * keys_at_once) {
      float k[keys_ahead][n], sums[keys_ahead * rows];
      LONGHAUL_UNROLL
      for (int a = 0; a < keys_ahead; ++a) {
        const Index key = begin + a * keys_at_once + mine;
        load_part<C, n>(p.keys, key < piece.keys ? at[key] : -1, stride, column, inside, NAN, k[a]);
      }
      LONGHAUL_UNROLL
      for (int a = 0; a < keys_ahead; ++a) LONGHAUL_UNROLL
      for (int r = 0; r < rows; ++r) {
        float sum = 0.0F;
        LONGHAUL_UNROLL
        for (int i = 0; i < n; ++i) sum += q[r][i] * k[a][i];
        sums[a * rows + r] = sum;
      }
      int first = 0;
      sum_many<keys_ahead * rows, lanes>(sums, lane, first);
      constexpr int left = keys_ahead * rows > lanes ? keys_ahead * rows / lanes : 1;
      if (keys_ahead * rows >= lanes || lane < keys_ahead * rows) {
        LONGHAUL_UNROLL
        for (int i = 0; i < left; ++i) {
          const Index key = begin + (first + i) / rows * keys_at_once + mine;
          if (key < piece.keys) scores[(first + i) % rows * paged_piece + key] = sums[i];
        }
      }
    }
    sync_block();
  }

  // Weighted values into sums [block_warps, rows, head_dim] of shared memory, a place for each warp.
  static __device__ void add_values(const Paged<C>& p, const Piece& piece, const std::int32_t* at, const float* weights,
                                    float* sums) {
    const int lane = static_cast<int>(threadIdx.x) % lanes, mine = static_cast<int>(threadIdx.x) / lanes;
    const Index d = p.head_dim, stride = p.kv_heads * d, column = piece.kv_head * d + lane * n;
    const bool inside = static_cast<Index>(lane) * n < d;
    float total[rows][n] = {};
    for (Index begin = 0; begin < piece.keys; begin += keys_ahead * keys_at_once) {
      float v[keys_ahead][n];
      LONGHAUL_UNROLL
      for (int a = 0; a < keys_ahead; ++a) {
        const Index key = begin + a * keys_at_once + mine;
        load_part<C, n>(p.values, key < piece.keys ? at[key] : -1, stride, column, inside, 0.0F, v[a]);
      }
      LONGHAUL_UNROLL
      for (int a = 0; a < keys_ahead; ++a) {
        const Index key = begin + a * keys_at_once + mine;
        LONGHAUL_UNROLL
        for (int r = 0; r < rows; ++r) {
          const float weight = key < piece.keys ? weights[r * paged_piece + key] : 0.0F;
          LONGHAUL_UNROLL
          for (int i = 0; i < n; ++i) total[r][i] += weight * v[a][i];
        }
      }
    }
    const int warp = static_cast<int>(threadIdx.x) / warp_size;
    LONGHAUL_UNROLL
    for (int r = 0; r < rows; ++r) LONGHAUL_UNROLL
    for (int i = 0; i < n; ++i) {
      float sum = total[r][i];
      LONGHAUL_UNROLL
      for (int mask = lanes; mask < warp_size; mask *= 2) sum += shuffle_xor(sum, mask);
      if (inside && threadIdx.x % warp_size < lanes) sums[(warp * rows + r) * d + lane * n + i] = sum;
    }
    sync_block();
  }
};

template <class C, int lanes, int rows>
__global__ void __launch_bounds__(block_threads) fast_kernel(Paged<C> p) {
  using F = Fast<C, lanes, rows>;
  const Piece piece = this_piece(p);
  if (piece.keys == 0) return;
  auto* const scores = reinterpret_cast<float*>(shared_memory());                 // [rows, paged_piece]
  auto* const at = reinterpret_cast<std::int32_t*>(scores + rows * paged_piece);  // [paged_piece]
  auto* const sums = reinterpret_cast<float*>(at + paged_piece);                  // [block_warps, rows, head_dim]
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const Index d = p.head_dim;
  find_rows(p, piece, at);
  for (Index first = 0; first < piece.rows; first += rows) {
    const Index count = piece.rows - first < rows ? piece.rows - first : rows;
    float q[rows][F::n];
    LONGHAUL_UNROLL
    for (int r = 0; r < rows; ++r) LONGHAUL_UNROLL
    for (int i = 0; i < F::n; ++i) {
      const Index column = static_cast<Index>(lane) * F::n + i;
      q[r][i] = r < count && column < d ? query(p, query_of(p, piece, first + r) * d + column) : 0.0F;
    }
    F::multiply_keys(p, piece, at, q, scores);
    weigh(p, piece, first, count, scores);
    F::add_values(p, piece, at, scores, sums);
    for (Index i = threadIdx.x; i < count * d; i += block_threads) {
      float sum = 0.0F;
      for (int warp = 0; warp < block_warps; ++warp) sum += sums[warp * rows * d + i];
      part_of(p, query_of(p, piece, first + i / d), piece.begin / paged_piece)[2 + i % d] = sum;
    }
    sync_block();
  }
}

// A block for each query row: its pieces in their order.
template <class T, class C>
__global__ void __launch_bounds__(block_threads) merge_kernel(Paged<C> p, T* out) {
  const Index row = blockIdx.x, sequence = row / (p.tokens * p.heads), d = p.head_dim;
  const Index seen = p.lengths[sequence] - p.tokens + row / p.heads % p.tokens + 1;
  const bool too_long = p.lengths[sequence] > p.longest;
  const Index pieces = seen > 0 && !too_long ? (seen + paged_piece - 1) / paged_piece : 0;
  const Index first = first_seen(p, seen) / paged_piece;
  float top = -INFINITY, total = 0.0F;
  for (Index piece = first; piece < pieces; ++piece) top = larger(top, part_of(p, row, piece)[0]);
  for (Index piece = first; piece < pieces; ++piece) {
    const float* const part = part_of(p, row, piece);
    total += part[1] * __expf(part[0] - top);
  }
  for (Index i = threadIdx.x; i < d; i += block_threads) {
    float sum = 0.0F;
    for (Index piece = first; piece < pieces; ++piece) {
      const float* const part = part_of(p, row, piece);
      sum += part[2 + i] * __expf(part[0] - top);
    }
    out[row * d + i] = from_float<T>(too_long ? NAN : pieces > 0 ? sum / total : 0.0F);
  }
}

template <class T, class C>
__global__ void __launch_bounds__(block_threads) append_kernel(PagedAppend<T, C> p) {
  const Index at = static_cast<Index>(blockIdx.x) * block_threads + threadIdx.x;
  if (at >= p.sequences * p.tokens * p.row) return;
  const Index token = at / p.row, sequence = token / p.tokens;
  const Index position = p.lengths[sequence] - p.tokens + token % p.tokens;
  if (position < 0 || position >= p.pages_each * p.page_tokens) return;
  const std::int32_t page = p.table[sequence * p.pages_each + position / p.page_tokens];
  if (page < 0 || page >= p.pages) return;
  const Index to = (page * p.page_tokens + position % p.page_tokens) * p.row + at % p.row;
  p.keys[to] = from_float<C>(to_float(p.k[at]));
  p.values[to] = from_float<C>(to_float(p.v[at]));
}

template <class C, int lanes, int rows>
void start_fast(cudaStream_t stream, const Paged<C>& p, dim3 grid) {
  launch("attention_decode_paged", stream, fast_kernel<C, lanes, rows>, grid, dim3(block_threads),
         Fast<C, lanes, rows>::shared_bytes(p.head_dim), p);
}
template <class C, int lanes>
void start_lanes(cudaStream_t stream, const Paged<C>& p, dim3 grid) {
  const Index rows = p.tokens * p.heads / p.kv_heads;
  if (rows == 1) return start_fast<C, lanes, 1>(stream, p, grid);
  if (rows <= 4) return start_fast<C, lanes, 4>(stream, p, grid);
  start_fast<C, lanes, 8>(stream, p, grid);
}

}  // namespace

template <class T, class C>
void attention_decode_paged(cudaStream_t stream, const Paged<C>& p, T* out) {
  const dim3 grid(blocks_for(p.longest, paged_piece), static_cast<unsigned>(p.kv_heads),
                  static_cast<unsigned>(p.sequences));
  const Index packs = p.head_dim / pack_of<C>;
  if (!rows_are_aligned<C>(p.head_dim, {p.keys, p.values}) || packs > 32)
    launch("attention_decode_paged", stream, any_shape_kernel<C>, grid, dim3(block_threads), 2 * paged_piece * 4, p);
  else if (packs <= 8)
    start_lanes<C, 8>(stream, p, grid);
  else if (packs <= 16)
    start_lanes<C, 16>(stream, p, grid);
  else
    start_lanes<C, 32>(stream, p, grid);
  launch("attention_decode_paged_merge", stream, merge_kernel<T, C>,
         dim3(static_cast<unsigned>(p.sequences * p.tokens * p.heads)), dim3(block_threads), 0, p, out);
}
template <class T, class C>
void paged_append(cudaStream_t stream, const PagedAppend<T, C>& p) {
  launch("paged_append", stream, append_kernel<T, C>, dim3(blocks_for(p.sequences * p.tokens * p.row, block_threads)),
         dim3(block_threads), 0, p);
}

#define LONGHAUL_PAGED(T, C)                                               \
  template void attention_decode_paged(cudaStream_t, const Paged<C>&, T*); \
  template void paged_append(cudaStream_t, const PagedAppend<T, C>&);
LONGHAUL_PAGED(float, float)
LONGHAUL_PAGED(float, bf16)
LONGHAUL_PAGED(bf16, float)
LONGHAUL_PAGED(bf16, bf16)

}  // namespace longhaul::cuda
