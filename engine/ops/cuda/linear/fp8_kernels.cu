#include "engine/ops/cuda/common/packs.h"
#include "engine/ops/cuda/common/row_access.h"
#include "engine/ops/cuda/linear/fp8_kernels.h"

namespace longhaul::cuda {
namespace {

constexpr int fp8_threads = 256;
constexpr int side = 128;                  // of the tile that a block of threads takes
constexpr int stretch = 32;                // neighbours of which one thread finds the largest
constexpr int stretches = side / stretch;  // in a row of codes

// Odd numbers of words to a row: a column lies in all banks of shared memory.
template <class T>
constexpr int row_of_tile = side + 4 / static_cast<int>(sizeof(T));
template <class T>
constexpr std::size_t tile_bytes = side * row_of_tile<T> * sizeof(T);
static_assert(tile_bytes<bf16> % 16 == 0 && tile_bytes<float> % 16 == 0);

// The tile in terms of the codes: `outer` rows, `inner` what a product sums over.
template <class T>
struct Tile {
  T* x;
  bool transposed;
  __device__ float at(int outer, int inner) const {
    return to_float(transposed ? x[inner * row_of_tile<T> + outer] : x[outer * row_of_tile<T> + inner]);
  }
};

// As it lies in memory; zero outside.
template <class T, int n>
__device__ void load_tile(const CastFp8<T>& p, Index rows, Index columns, Index r0, Index c0, T* tile) {
  constexpr int packs = side * side / (fp8_threads * n), ahead = packs < 8 ? packs : 8;  // loads under way at once
  for (int begin = 0; begin < packs; begin += ahead) {
    Pack<T, n> held[ahead] = {};
    const auto place = [&](int k) { return ((begin + k) * fp8_threads + static_cast<int>(threadIdx.x)) * n; };
    LONGHAUL_UNROLL
    for (int k = 0; k < ahead; ++k) {
      const Index r = r0 + place(k) / side, c = c0 + place(k) % side;
      if (r < rows && c < columns) held[k] = *reinterpret_cast<const Pack<T, n>*>(p.x + r * columns + c);
    }
    LONGHAUL_UNROLL
    for (int k = 0; k < ahead; ++k) {
      T* const to = tile + place(k) / side * row_of_tile<T> + place(k) % side;
      LONGHAUL_UNROLL
      for (int i = 0; i < n; ++i) to[i] = held[k].value[i];
    }
  }
}

// The largest magnitude of each stretch, as bits: largest[stretch * side + outer].
template <class T>
__device__ void find_largest(const Tile<T>& tile, std::uint32_t* largest) {
  for (int s = static_cast<int>(threadIdx.x); s < side * stretches; s += fp8_threads) {
    const int outer = s % side, first = s / side * stretch;
    std::uint32_t most = 0;
    for (int i = 0; i < stretch; ++i) {
      const std::uint32_t bits = std::bit_cast<std::uint32_t>(tile.at(outer, first + i)) & 0x7FFFFFFFU;
      most = bits > most ? bits : most;
    }
    largest[s] = most;
  }
}

__device__ inline std::uint32_t larger_bits(std::uint32_t a, std::uint32_t b) {
  return a > b ? a : b;
}

// Each stretch gets the largest of the tile. parts: one number for each warp, free again after the call.
__device__ inline void spread_largest(std::uint32_t* largest, std::uint32_t* parts) {
  const int thread = static_cast<int>(threadIdx.x);
  std::uint32_t most = 0;
  for (int s = thread; s < side * stretches; s += fp8_threads) most = larger_bits(most, largest[s]);
  LONGHAUL_UNROLL
  for (int mask = 1; mask < warp_size; mask *= 2) most = larger_bits(most, shuffle_xor(most, mask));
  if (thread % warp_size == 0) parts[thread / warp_size] = most;
  sync_block();
  for (int i = 0; i < fp8_threads / warp_size; ++i) most = larger_bits(most, parts[i]);
  for (int s = thread; s < side * stretches; s += fp8_threads) largest[s] = most;
  sync_block();
}

// The largest of a stretch's block.
__device__ inline std::uint32_t largest_of_block(Fp8Scales scales, const std::uint32_t* largest, int s) {
  if (scales != Fp8Scales::rows) return largest[s];
  std::uint32_t most = 0;
  for (int i = s % side; i < side * stretches; i += side) most = larger_bits(most, largest[i]);
  return most;
}

// Scales of the blocks, to shared memory for each stretch and to where they belong.
__device__ inline void write_scales(const Fp8Cast& how, Index o0, Index i0, const std::uint32_t* largest, float* scale,
                                    std::uint8_t* scales) {
  const Fp8Matrix& m = how.to;
  for (int s = static_cast<int>(threadIdx.x); s < side * stretches; s += fp8_threads) {
    const int outer = s % side, which = s / side;
    const std::uint8_t code =
        scale_code(m.format, how.rounding, std::bit_cast<float>(largest_of_block(m.scales, largest, s)));
    scale[s] = decode_e8m0(code);
    const Index o = o0 + outer, i = i0 + which * stretch;
    if (o >= m.rows || i >= m.columns) continue;
    const bool first = m.scales == Fp8Scales::mx || (which == 0 && (m.scales == Fp8Scales::rows || outer == 0));
    if (!first) continue;
    const Index place = fp8_scale_place(m.scales, m.rows, m.columns, o, i);
    if (m.scales == Fp8Scales::mx)
      scales[place] = code;
    else
      reinterpret_cast<float*>(scales)[place] = scale[s];
  }
}

struct alignas(16) Codes {
  std::uint8_t value[16];
};

// encode() of 16 numbers, by the GPU's own instruction where it has one: the same bits but for NaN of E5M2, of which it
// has another code.
__device__ inline Codes encode_all(NumberFormat format, const float (&x)[16]) {
  Codes codes;
  const bool e5m2 = format == NumberFormat::e5m2;
  LONGHAUL_UNROLL
  for (int j = 0; j < 16; j += 2) {
    std::uint32_t both = 0;
    if (encode_pair(e5m2, x[j], x[j + 1], both)) {
      codes.value[j] = e5m2 && x[j] != x[j] ? 0x7E : static_cast<std::uint8_t>(both);
      codes.value[j + 1] = e5m2 && x[j + 1] != x[j + 1] ? 0x7E : static_cast<std::uint8_t>(both >> 8);
    } else {
      codes.value[j] = encode(format, x[j]), codes.value[j + 1] = encode(format, x[j + 1]);
    }
  }
  return codes;
}

// With the scale of a tensor, and in the order that x has: no tile is needed. 16 elements to a thread.
template <class T, int n>
__global__ void __launch_bounds__(fp8_threads) cast_in_order_kernel(CastFp8<T> p) {
  const Index at = (static_cast<Index>(blockIdx.x) * fp8_threads + threadIdx.x) * 16;
  if (at >= p.how.to.rows * p.how.to.columns) return;
  float x[16];
  LONGHAUL_UNROLL
  for (int j = 0; j < 16; j += n) {
    float v[n];
    load<n>(p.x + at + j, v);
    LONGHAUL_UNROLL
    for (int i = 0; i < n; ++i) x[j + i] = v[i];
  }
  const float inverse = 1.0F / *reinterpret_cast<const float*>(p.scales);
  LONGHAUL_UNROLL
  for (int j = 0; j < 16; ++j) x[j] *= inverse;
  *reinterpret_cast<Codes*>(p.codes + at) = encode_all(p.how.to.format, x);
}

// Codes of four numbers, the first in the lowest byte.
__device__ inline std::uint32_t encode_four(NumberFormat format, float a, float b, float c, float d) {
  const bool e5m2 = format == NumberFormat::e5m2;
  std::uint32_t lower = 0, upper = 0;
  if (!encode_pair(e5m2, a, b, lower) || !encode_pair(e5m2, c, d, upper))
    return encode(format, a) | encode(format, b) << 8 | static_cast<std::uint32_t>(encode(format, c)) << 16 |
           static_cast<std::uint32_t>(encode(format, d)) << 24;
  std::uint32_t codes = lower | upper << 16;
  if (e5m2) {
    if (a != a) codes = (codes & 0xFFFFFF00U) | 0x7E;
    if (b != b) codes = (codes & 0xFFFF00FFU) | 0x7E00;
    if (c != c) codes = (codes & 0xFF00FFFFU) | 0x7E0000;
    if (d != d) codes = (codes & 0x00FFFFFFU) | 0x7E000000;
  }
  return codes;
}

// With the scale of a tensor, transposed. A thread has packs of four neighbouring rows of x, which are four
// neighbouring codes of each of the pack's columns: a word of shared memory, where a row of codes has 32 words. Word w
// of row r lies at w ^ spread(r): words of one column of threads, and the four that a thread takes from there together,
// are in different banks.
template <class T>
__device__ inline int spread(int row) {
  return row / pack_of<T> * (pack_of<T> / 4) % (side / 4);
}
template <class T>
__global__ void __launch_bounds__(fp8_threads) cast_transposed_kernel(CastFp8<T> p) {
  constexpr int n = pack_of<T>, across = side / n;                   // packs in a row of the tile
  constexpr int times = side / 4 * across / fp8_threads, ahead = 2;  // four packs each time
  static_assert(times % ahead == 0);
  const Fp8Matrix m = p.how.to;
  auto* const words = reinterpret_cast<std::uint32_t*>(shared_memory());  // [side, side / 4]
  const Index o0 = static_cast<Index>(blockIdx.y) * side, i0 = static_cast<Index>(blockIdx.x) * side;
  const float inverse = 1.0F / *reinterpret_cast<const float*>(p.scales);
  LONGHAUL_UNROLL
  for (int begin = 0; begin < times; begin += ahead) {
    Words held[ahead][4] = {};
    const int column = static_cast<int>(threadIdx.x) % across * n;
    const auto word_of = [&](int k) {
      return static_cast<int>(threadIdx.x) / across + (begin + k) * (fp8_threads / across);
    };
    LONGHAUL_UNROLL
    for (int k = 0; k < ahead; ++k) LONGHAUL_UNROLL
    for (int i = 0; i < 4; ++i) {
      const Index inner = i0 + word_of(k) * 4 + i;
      if (inner < m.columns && o0 + column < m.rows) held[k][i] = read_words(p.x + inner * m.rows + o0 + column);
    }
    LONGHAUL_UNROLL
    for (int k = 0; k < ahead; ++k) {
      float x[4][n];
      LONGHAUL_UNROLL
      for (int i = 0; i < 4; ++i) unpack<T>(held[k][i], x[i]);
      LONGHAUL_UNROLL
      for (int j = 0; j < n; ++j)
        words[(column + j) * (side / 4) + (word_of(k) ^ spread<T>(column))] =
            encode_four(m.format, x[0][j] * inverse, x[1][j] * inverse, x[2][j] * inverse, x[3][j] * inverse);
    }
  }
  sync_block();
  constexpr int quads = side / 16;  // of words, in a row
  LONGHAUL_UNROLL
  for (int q = static_cast<int>(threadIdx.x); q < side * quads; q += fp8_threads) {
    const int row = q / quads, quad = q % quads, by = spread<T>(row);
    if (o0 + row >= m.rows || i0 + quad * 16 >= m.columns) continue;
    const Words found = read_words(words + row * (side / 4) + (quad * 4 ^ (by & ~3)));
    const bool one = (by & 1) != 0, two = (by & 2) != 0;
    const Words halves = two ? Words{found.at[2], found.at[3], found.at[0], found.at[1]} : found;
    write_words(one ? Words{halves.at[1], halves.at[0], halves.at[3], halves.at[2]} : halves,
                p.codes + (o0 + row) * m.columns + i0 + quad * 16);
  }
}

template <class T, int n>
__global__ void __launch_bounds__(fp8_threads) cast_kernel(CastFp8<T> p) {
  const Fp8Matrix m = p.how.to;
  const Tile<T> tile{reinterpret_cast<T*>(shared_memory()), p.how.transposed};
  auto* const largest = reinterpret_cast<std::uint32_t*>(shared_memory() + tile_bytes<T>);
  auto* const scale = reinterpret_cast<float*>(largest + side * stretches);
  const Index o0 = static_cast<Index>(blockIdx.y) * side, i0 = static_cast<Index>(blockIdx.x) * side;
  load_tile<T, n>(p, tile.transposed ? m.columns : m.rows, tile.transposed ? m.rows : m.columns,
                  tile.transposed ? i0 : o0, tile.transposed ? o0 : i0, tile.x);
  sync_block();
  float one = 0;
  if (m.scales == Fp8Scales::tensor) {
    one = *reinterpret_cast<const float*>(p.scales);
  } else {
    find_largest(tile, largest);
    sync_block();
    if (m.scales == Fp8Scales::squares) spread_largest(largest, reinterpret_cast<std::uint32_t*>(scale));
    write_scales(p.how, o0, i0, largest, scale, p.scales);
    sync_block();
  }
  // Neighbouring threads read neighbouring elements of the tile, whichever way it lies.
  for (int w = static_cast<int>(threadIdx.x); w < side * side / 16; w += fp8_threads) {
    const int outer = tile.transposed ? w % side : w / (side / 16);
    const int inner = (tile.transposed ? w / side : w % (side / 16)) * 16;
    if (o0 + outer >= m.rows || i0 + inner >= m.columns) continue;
    const float inverse = 1.0F / (m.scales == Fp8Scales::tensor ? one : scale[inner / stretch * side + outer]);
    float x[16];
    LONGHAUL_UNROLL
    for (int j = 0; j < 16; ++j) x[j] = tile.at(outer, inner + j) * inverse;
    *reinterpret_cast<Codes*>(p.codes + (o0 + outer) * m.columns + i0 + inner) = encode_all(m.format, x);
  }
}

__global__ void tensor_scale_kernel(NumberFormat format, int margin, const float* amax, float* scale) {
  scale[0] = tensor_scale(format, amax[0], margin);
}

}  // namespace

template <class T>
void cast_fp8(cudaStream_t stream, const CastFp8<T>& p) {
  const Fp8Matrix& m = p.how.to;
  if (m.rows == 0 || m.columns == 0) return;
  constexpr std::size_t shared = tile_bytes<T> + side * stretches * (sizeof(std::uint32_t) + sizeof(float));
  // Columns are multiples of 16: rows begin at multiples of 16 bytes where the first one does.
  with_width<T>(m.columns, {p.x}, [&](auto width) {
    if (m.scales == Fp8Scales::tensor && !p.how.transposed)
      return launch("cast_fp8_in_order", stream, cast_in_order_kernel<T, decltype(width)::value>,
                    dim3(blocks_for(m.rows * m.columns / 16, fp8_threads)), dim3(fp8_threads), 0, p);
    if (m.scales == Fp8Scales::tensor && rows_are_aligned<T>(m.rows, {p.x}))
      return launch("cast_fp8_transposed", stream, cast_transposed_kernel<T>,
                    dim3(blocks_for(m.columns, side), blocks_for(m.rows, side)), dim3(fp8_threads), side * side, p);
    launch("cast_fp8", stream, cast_kernel<T, decltype(width)::value>,
           dim3(blocks_for(m.columns, side), blocks_for(m.rows, side)), dim3(fp8_threads), shared, p);
  });
}

void tensor_scale_fp8(cudaStream_t stream, NumberFormat format, int margin, const float* amax, float* scale) {
  launch("tensor_scale_fp8", stream, tensor_scale_kernel, dim3(1), dim3(1), 0, format, margin, amax, scale);
}

template void cast_fp8(cudaStream_t, const CastFp8<float>&);
template void cast_fp8(cudaStream_t, const CastFp8<bf16>&);

}  // namespace longhaul::cuda
