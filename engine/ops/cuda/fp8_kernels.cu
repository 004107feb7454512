#include "engine/ops/cuda/fp8_kernels.h"
#include "engine/ops/cuda/row_access.h"

namespace longhaul::cuda {
namespace {

constexpr int block_threads = 256;
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
  for (int e = static_cast<int>(threadIdx.x) * n; e < side * side; e += block_threads * n) {
    const int r = e / side, c = e % side;
    T* const to = tile + r * row_of_tile<T> + c;
    if (r0 + r < rows && c0 + c < columns) {
      const Pack<T, n> pack = *reinterpret_cast<const Pack<T, n>*>(p.x + (r0 + r) * columns + c0 + c);
      LONGHAUL_UNROLL
      for (int i = 0; i < n; ++i) to[i] = pack.value[i];
    } else {
      LONGHAUL_UNROLL
      for (int i = 0; i < n; ++i) to[i] = from_float<T>(0.0F);
    }
  }
}

// The largest magnitude of each stretch, as bits: largest[stretch * side + outer].
template <class T>
__device__ void find_largest(const Tile<T>& tile, std::uint32_t* largest) {
  for (int s = static_cast<int>(threadIdx.x); s < side * stretches; s += block_threads) {
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

// Each stretch gets the largest of its block. Where that is the tile, all threads read the same words at a time.
__device__ inline std::uint32_t largest_of_block(Fp8Scales scales, const std::uint32_t* largest, int s) {
  if (scales == Fp8Scales::mx) return largest[s];
  const int outer = s % side;
  std::uint32_t most = 0;
  const int first = scales == Fp8Scales::rows ? outer : 0, step = scales == Fp8Scales::rows ? side : 1;
  for (int i = first; i < side * stretches; i += step) most = larger_bits(most, largest[i]);
  return most;
}

// Scales of the blocks, to shared memory for each stretch and to where they belong.
__device__ inline void write_scales(const Fp8Cast& how, Index o0, Index i0, const std::uint32_t* largest, float* scale,
                                    std::uint8_t* scales) {
  const Fp8Matrix& m = how.to;
  for (int s = static_cast<int>(threadIdx.x); s < side * stretches; s += block_threads) {
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
__global__ void __launch_bounds__(block_threads) cast_in_order_kernel(CastFp8<T> p) {
  const Index at = (static_cast<Index>(blockIdx.x) * block_threads + threadIdx.x) * 16;
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

template <class T, int n>
__global__ void __launch_bounds__(block_threads) cast_kernel(CastFp8<T> p) {
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
    write_scales(p.how, o0, i0, largest, scale, p.scales);
    sync_block();
  }
  // Neighbouring threads read neighbouring elements of the tile, whichever way it lies.
  for (int w = static_cast<int>(threadIdx.x); w < side * side / 16; w += block_threads) {
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
                    dim3(blocks_for(m.rows * m.columns / 16, block_threads)), dim3(block_threads), 0, p);
    launch("cast_fp8", stream, cast_kernel<T, decltype(width)::value>,
           dim3(blocks_for(m.columns, side), blocks_for(m.rows, side)), dim3(block_threads), shared, p);
  });
}

void tensor_scale_fp8(cudaStream_t stream, NumberFormat format, int margin, const float* amax, float* scale) {
  launch("tensor_scale_fp8", stream, tensor_scale_kernel, dim3(1), dim3(1), 0, format, margin, amax, scale);
}

template void cast_fp8(cudaStream_t, const CastFp8<float>&);
template void cast_fp8(cudaStream_t, const CastFp8<bf16>&);

}  // namespace longhaul::cuda
