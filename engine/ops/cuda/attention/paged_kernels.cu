// Two kernels compute a piece. The fast one is for rows of whole packs of 16 bytes: all keys and values of the piece
// are asked for at once and travel to shared memory; some lanes together read a key there and multiply it with all
// query rows of its head, which they hold in registers. The other one takes any shape. Both leave the same three
// things: the largest score, the sum of weights, the sum of weighted values.
#include "engine/ops/cuda/attention/paged_kernels.h"
#include "engine/ops/cuda/common/packs.h"
#include "engine/ops/cuda/common/row_access.h"

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
// What is looked at of a sequence, and where it lies.
template <class C>
__device__ inline Index length_of(const Paged<C>& p, Index sequence) {
  if (p.caches == nullptr) return p.lengths[sequence];
  const Index length = p.caches[sequence].length;
  return p.last_keys > 0 && length > p.last_keys ? p.last_keys : length;
}
template <class C>
struct Pools {
  const C *keys, *values;
};
template <class C>
__device__ inline Pools<C> pools_of(const Paged<C>& p, Index sequence) {
  if (p.caches == nullptr) return {p.keys, p.values};
  const DecodeCache<C> cache = p.caches[sequence];
  const Index before = (cache.length - length_of(p, sequence)) * p.kv_heads * p.head_dim;
  return {cache.k + before, cache.v + before};
}
template <class C>
__device__ inline Piece this_piece(const Paged<C>& p) {
  Piece piece{};
  piece.sequence = blockIdx.z, piece.kv_head = blockIdx.y;
  piece.begin = static_cast<Index>(blockIdx.x) * paged_piece;
  piece.length = length_of(p, piece.sequence);
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
  const int group = static_cast<int>(piece.group), token = static_cast<int>(r) / group;
  const Index head = piece.kv_head * group + static_cast<int>(r) % group;
  return (piece.sequence * p.tokens + token) * p.heads + head;
}
// The keys of the piece that it sees: [first, end).
struct KeysSeen {
  Index first, end;
};
template <class C>
__device__ inline KeysSeen keys_seen(const Paged<C>& p, const Piece& piece, Index r) {
  const Index count = piece.length - p.tokens + static_cast<int>(r) / static_cast<int>(piece.group) + 1;
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
  const int page_tokens = static_cast<int>(p.page_tokens);
  for (Index key = threadIdx.x; key < piece.keys; key += block_threads) {
    const int at = static_cast<int>(piece.begin + key);
    if (p.caches != nullptr) {
      rows[key] = at;
      continue;
    }
    const std::int32_t page = p.table[piece.sequence * p.pages_each + at / page_tokens];
    rows[key] = page < 0 || page >= p.pages ? -1 : page * page_tokens + at % page_tokens;
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
  const Pools<C> pools = pools_of(p, piece.sequence);
  const int warp = static_cast<int>(threadIdx.x) / warp_size, lane = static_cast<int>(threadIdx.x) % warp_size;
  find_rows(p, piece, rows);
  for (Index r = 0; r < piece.rows; ++r) {
    const Index at = query_of(p, piece, r);
    for (Index key = warp; key < piece.keys; key += block_warps) {
      float sum = rows[key] < 0 ? NAN : 0.0F;
      if (rows[key] >= 0)
        for (Index i = lane; i < d; i += warp_size)
          sum += query(p, at * d + i) * to_float(pools.keys[rows[key] * stride + column + i]);
      sum = sum_over_warp(sum);
      if (lane == 0) scores[key] = sum;
    }
    sync_block();
    weigh(p, piece, r, 1, scores);
    float* const part = part_of(p, at, piece.begin / paged_piece);
    for (Index i = threadIdx.x; i < d; i += block_threads) {
      float sum = 0.0F;
      for (Index key = 0; key < piece.keys; ++key)
        sum += scores[key] * (rows[key] < 0 ? 0.0F : to_float(pools.values[rows[key] * stride + column + i]));
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

// `lanes` lanes for a key; `rows` query rows at a time.
template <class C, int lanes, int rows>
struct Fast {
  static constexpr int n = pack_of<C>;
  static constexpr int keys_at_once = block_threads / lanes;  // of the block
  static constexpr Index held = paged_piece * lanes;          // packs of all keys, or of all values
  // The warps' sums of values take the place of the keys where these are read once: where `all` query rows are no more
  // than are computed at a time.
  static constexpr bool sums_over_keys(Index all) { return all <= rows; }
  static constexpr std::size_t shared_bytes(Index head_dim, Index all) {
    return static_cast<std::size_t>(2 * held * 16 + paged_piece * 4 + rows * paged_piece * 4 +
                                    (sums_over_keys(all) ? 0 : block_warps * rows * head_dim * 4));
  }

  // Asks for what this thread will read of the keys, or of the values: pack `lane` of every key that is `mine`, to
  // held [paged_piece, lanes]. `nothing`: in place of a row that the pool does not have.
  static __device__ void fetch(const Paged<C>& p, const Piece& piece, const C* pool, const std::int32_t* at,
                               float nothing, Words* to) {
    const int lane = static_cast<int>(threadIdx.x) % lanes;
    const Index d = p.head_dim, stride = p.kv_heads * d, column = piece.kv_head * d + lane * n;
    const bool inside = static_cast<Index>(lane) * n < d;
    const bool aligned = reinterpret_cast<std::uintptr_t>(pool) % 16 == 0;
    for (Index key = static_cast<int>(threadIdx.x) / lanes; key < piece.keys; key += keys_at_once) {
      const C* const from = pool + at[key] * stride + column;
      float v[n];
      LONGHAUL_UNROLL
      for (int i = 0; i < n; ++i) v[i] = inside ? nothing : 0.0F;
      if (inside && at[key] >= 0 && aligned) {
        copy_later(to + key * lanes + lane, from);
        continue;
      }
      if (inside && at[key] >= 0) LONGHAUL_UNROLL
      for (int i = 0; i < n; ++i) v[i] = to_float(from[i]);
      to[key * lanes + lane] = packed<C>(v);
    }
    end_copy_group();
  }
  // The pack of a key; zeros behind the last one.
  static __device__ void take(const Piece& piece, const Words* from, Index key, float (&v)[n]) {
    const Words words = key < piece.keys ? from[key * lanes + static_cast<int>(threadIdx.x) % lanes] : Words{};
    unpack<C>(words, v);
  }

  // Scores of all keys of the piece with q [rows, n] of this lane.
  static __device__ void multiply_keys(const Piece& piece, const Words* keys, const float (&q)[rows][n],
                                       float* scores) {
    const int lane = static_cast<int>(threadIdx.x) % lanes, mine = static_cast<int>(threadIdx.x) / lanes;
    for (Index begin = 0; begin < piece.keys; begin += keys_ahead * keys_at_once) {
      float k[keys_ahead][n], sums[keys_ahead * rows];
      LONGHAUL_UNROLL
      for (int a = 0; a < keys_ahead; ++a) take(piece, keys, begin + a * keys_at_once + mine, k[a]);
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
  static __device__ void add_values(Index d, const Piece& piece, const Words* values, const float* weights,
                                    float* sums) {
    const int lane = static_cast<int>(threadIdx.x) % lanes, mine = static_cast<int>(threadIdx.x) / lanes;
    const bool inside = static_cast<Index>(lane) * n < d;
    float total[rows][n] = {};
    for (Index begin = 0; begin < piece.keys; begin += keys_ahead * keys_at_once) {
      float v[keys_ahead][n];
      LONGHAUL_UNROLL
      for (int a = 0; a < keys_ahead; ++a) take(piece, values, begin + a * keys_at_once + mine, v[a]);
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
  auto* const keys = reinterpret_cast<Words*>(shared_memory());                   // [paged_piece, lanes]
  auto* const values = keys + F::held;                                            // the same
  auto* const scores = reinterpret_cast<float*>(values + F::held);                // [rows, paged_piece]
  auto* const at = reinterpret_cast<std::int32_t*>(scores + rows * paged_piece);  // [paged_piece]
  auto* const sums = reinterpret_cast<float*>(F::sums_over_keys(piece.rows)       // [block_warps, rows, head_dim]
                                                  ? static_cast<void*>(keys)
                                                  : static_cast<void*>(at + paged_piece));
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const Index d = p.head_dim;
  const Pools<C> pools = pools_of(p, piece.sequence);
  find_rows(p, piece, at);
  F::fetch(p, piece, pools.keys, at, NAN, keys);
  F::fetch(p, piece, pools.values, at, 0.0F, values);
  for (Index first = 0; first < piece.rows; first += rows) {
    const Index count = piece.rows - first < rows ? piece.rows - first : rows;
    float q[rows][F::n];
    LONGHAUL_UNROLL
    for (int r = 0; r < rows; ++r) LONGHAUL_UNROLL
    for (int i = 0; i < F::n; ++i) {
      const Index column = static_cast<Index>(lane) * F::n + i;
      q[r][i] = r < count && column < d ? query(p, query_of(p, piece, first + r) * d + column) : 0.0F;
    }
    wait_for_copy_groups<1>();
    F::multiply_keys(piece, keys, q, scores);
    weigh(p, piece, first, count, scores);
    wait_for_copy_groups<0>();
    F::add_values(d, piece, values, scores, sums);
    const int width = static_cast<int>(d);
    for (int i = static_cast<int>(threadIdx.x); i < count * width; i += block_threads) {
      float sum = 0.0F;
      for (int warp = 0; warp < block_warps; ++warp) sum += sums[warp * rows * width + i];
      part_of(p, query_of(p, piece, first + i / width), piece.begin / paged_piece)[2 + i % width] = sum;
    }
    sync_block();
  }
}

// A block for each query row. Part y of its threads takes every merge_parts-th piece, from the y-th on, several ahead;
// the sums of the parts are added in their order.
constexpr int merge_parts = 4, merge_threads = merge_parts * block_threads;
template <class T, class C>
__global__ void __launch_bounds__(merge_threads) merge_kernel(Paged<C> p, T* out) {
  auto* const of_warps = reinterpret_cast<float*>(shared_memory());  // [merge_threads / warp_size]
  float* const sums = of_warps + merge_threads / warp_size;          // [merge_parts, block_threads]
  float* const scales = sums + merge_threads;                        // [pieces]
  const Index row = blockIdx.x, sequence = row / (p.tokens * p.heads), d = p.head_dim;
  const Index length = length_of(p, sequence), seen = length - p.tokens + row / p.heads % p.tokens + 1;
  const bool too_long = length > p.longest;
  const int pieces = seen > 0 && !too_long ? static_cast<int>((seen + paged_piece - 1) / paged_piece) : 0;
  const int first = static_cast<int>(first_seen(p, seen) / paged_piece), thread = static_cast<int>(threadIdx.x);
  const float* const parts = part_of(p, row, 0);
  float top = -INFINITY, total = 0.0F;
  for (int piece = first + thread; piece < pieces; piece += merge_threads) top = larger(top, parts[piece * (d + 2)]);
  top = max_over_block(top, of_warps);
  for (int piece = first + thread; piece < pieces; piece += merge_threads) {
    const float scale = __expf(parts[piece * (d + 2)] - top);
    scales[piece] = scale;
    total += parts[piece * (d + 2) + 1] * scale;
  }
  total = sum_over_block(total, of_warps);  // behind it all scales are there
  const int y = thread / block_threads, x = thread % block_threads;
  for (Index begin = 0; begin < d; begin += block_threads) {  // the same for all threads
    constexpr int ahead = 8;
    float sum = 0.0F;
    if (begin + x < d)
      for (int from = first + y; from < pieces; from += ahead * merge_parts) {
        float v[ahead];
        LONGHAUL_UNROLL
        for (int a = 0; a < ahead; ++a) {
          const int piece = from + a * merge_parts;
          v[a] = piece < pieces ? parts[piece * (d + 2) + 2 + begin + x] * scales[piece] : 0.0F;
        }
        LONGHAUL_UNROLL
        for (int a = 0; a < ahead; ++a) sum += v[a];
      }
    sums[thread] = sum;
    sync_block();
    if (y == 0 && begin + x < d) {
      for (int i = 1; i < merge_parts; ++i) sum += sums[i * block_threads + x];
      out[row * d + begin + x] = from_float<T>(too_long ? NAN : pieces > 0 ? sum / total : 0.0F);
    }
    sync_block();
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
         Fast<C, lanes, rows>::shared_bytes(p.head_dim, p.tokens * p.heads / p.kv_heads), p);
}
template <class C, int lanes>
void start_lanes(cudaStream_t stream, const Paged<C>& p, dim3 grid) {
  const Index rows = p.tokens * p.heads / p.kv_heads;
  if (rows == 1) return start_fast<C, lanes, 1>(stream, p, grid);
  constexpr std::size_t shared_max = 160 * 1024;  // of a block on an A100
  if (rows <= 4 || Fast<C, lanes, 8>::shared_bytes(p.head_dim, rows) > shared_max)
    return start_fast<C, lanes, 4>(stream, p, grid);
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
  launch(
      "attention_decode_paged_merge", stream, merge_kernel<T, C>,
      dim3(static_cast<unsigned>(p.sequences * p.tokens * p.heads)), dim3(merge_threads),
      (merge_threads / warp_size + merge_threads) * sizeof(float) + blocks_for(p.longest, paged_piece) * sizeof(float),
      p, out);
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
