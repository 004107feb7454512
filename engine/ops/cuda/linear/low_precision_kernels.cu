#include "engine/ops/cuda/common/packs.h"
#include "engine/ops/cuda/common/row_access.h"
#include "engine/ops/cuda/linear/low_precision_kernels.h"

namespace longhaul::cuda {
namespace {

constexpr int rounding_threads = 256;
constexpr Index flat_piece = 8192;  // elements of a flat array that one block takes
constexpr std::size_t shared_sums = rounding_threads / warp_size * sizeof(double);

// A format as the processor's kernels have it (engine/ops/cpu/simd/kernels_low_precision.inc): elements are clipped to
// max, then a sum with a number that has no bits below the wanted place rounds them.
struct Rounding {
  float max, overflow;  // the largest number; above it half a unit, from where on a number saturates
  int least_field, magic_shift;
};
Rounding rounding_of(NumberFormat format) {
  const NumberTraits t = traits_of(format);
  return {t.max, t.max + power_of_two(t.exponent_max - t.mantissa_bits - 1), t.exponent_min + 127,
          23 - t.mantissa_bits};
}

__device__ inline std::uint32_t bits_of(float x) {
  return std::bit_cast<std::uint32_t>(x);
}
__device__ inline float round_with(const Rounding& f, float x) {
  const float upper = x > f.max ? f.max : x, clipped = upper < -f.max ? -f.max : upper;
  const int field = static_cast<int>(bits_of(clipped) >> 23 & 0xFF);
  const int least = field > f.least_field ? field : f.least_field;
  const float magic =
      std::bit_cast<float>(static_cast<std::uint32_t>(least + f.magic_shift) << 23 | std::uint32_t{0x400000});
  return (clipped + magic) - magic;
}

struct Counts {
  float signal = 0, noise = 0;
  float values = 0, flushed = 0, saturated = 0;
};
__device__ inline void count(const Rounding& f, float x, float y, float scaled, Counts& c) {
  const float difference = y - x;
  c.signal += x * x, c.noise += difference * difference;
  c.values += x != 0.0F ? 1.0F : 0.0F;
  c.flushed += x != 0.0F && y == 0.0F ? 1.0F : 0.0F;
  c.saturated += scaled > f.overflow || scaled < -f.overflow ? 1.0F : 0.0F;
}
// By all threads of the block.
__device__ inline void write_counts(const Counts& c, double* parts) {
  auto* const shared = reinterpret_cast<double*>(shared_memory());
  const double mine[quantization_sums] = {c.signal, c.noise, c.values, c.flushed, c.saturated};
  LONGHAUL_UNROLL
  for (int i = 0; i < quantization_sums; ++i) {
    const double sum = sum_over_block(mine[i], shared);
    if (threadIdx.x == 0) parts[static_cast<Index>(blockIdx.x) * quantization_sums + i] = sum;
  }
}

template <class T, bool counted>
__device__ inline float quantized(const Rounding& f, float x, float inverse, float scale, Counts& c) {
  const float scaled = x * inverse, y = round_with(f, scaled) * scale;
  if constexpr (counted) count(f, x, to_float(from_float<T>(y)), scaled, c);
  return y;
}

// Of a block whose magnitudes are at most `most` (bits).
struct Scale {
  float inverse, scale;
};
__device__ inline Scale scale_of(const BlockQuantization& how, std::uint32_t most) {
  const float scale = decode_e8m0(scale_code(how.format, how.rounding, std::bit_cast<float>(most)));
  return {1.0F / scale, scale};
}

// The same, where the whole block becomes NaN if one of its numbers is none, or infinite.
template <class T, bool counted, int n>
__device__ inline Words quantized_pack(const Rounding& f, const Words& words, const Scale& s, Counts& c) {
  float x[n];
  unpack<T>(words, x);
  LONGHAUL_UNROLL
  for (int j = 0; j < n; ++j) {
    const float scaled = x[j] * s.inverse, clipped = fmaxf(fminf(scaled, f.max), -f.max);
    const std::uint32_t field = bits_of(clipped) & 0x7F800000U, least = static_cast<std::uint32_t>(f.least_field) << 23;
    const std::uint32_t shift = static_cast<std::uint32_t>(f.magic_shift) << 23 | 0x400000U;
    const float magic = std::bit_cast<float>((field > least ? field : least) + shift);
    const float y = ((clipped + magic) - magic) * s.scale;
    if constexpr (counted) count(f, x[j], to_float(from_float<T>(y)), scaled, c);
    x[j] = y;
  }
  return packed<T>(x);
}

// Blocks of one row, each of `lanes` neighbouring threads with a pack each, packs_held times over; all rows are whole
// blocks. Of the blocks that four neighbours have a part of, each finds the scale of one and the others ask for it.
constexpr int packs_held = 4;
template <class T, bool counted>
__global__ void __launch_bounds__(rounding_threads) row_blocks_kernel(QuantizeBlocks<T> p, Rounding f, int lanes) {
  constexpr int n = pack_of<T>;
  const Index first = (static_cast<Index>(blockIdx.x) * packs_held * rounding_threads + threadIdx.x) * n;
  constexpr Index step = rounding_threads * n;
  const Index size = p.rows * p.columns;
  Words words[packs_held] = {};
  LONGHAUL_UNROLL
  for (int k = 0; k < packs_held; ++k)
    if (first + k * step < size) words[k] = read_words(p.x + first + k * step);
  std::uint32_t most[packs_held] = {};
  LONGHAUL_UNROLL
  for (int k = 0; k < packs_held; ++k) {
    float x[n];
    unpack<T>(words[k], x);
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) {
      const std::uint32_t bits = bits_of(x[j]) & 0x7FFFFFFFU;
      most[k] = bits > most[k] ? bits : most[k];
    }
    for (int mask = 1; mask < lanes; mask *= 2) {
      const std::uint32_t other = shuffle_xor(most[k], mask);
      most[k] = other > most[k] ? other : most[k];
    }
  }
  const int thread = static_cast<int>(threadIdx.x) % warp_size;
  static_assert(packs_held == 4);
  const std::uint32_t upper = (thread & 1) != 0 ? most[3] : most[2], lower = (thread & 1) != 0 ? most[1] : most[0];
  const Scale of_one = scale_of(p.how, (thread & 2) != 0 ? upper : lower);
  Counts counts;
  LONGHAUL_UNROLL
  for (int k = 0; k < packs_held; ++k) {
    const int one = (thread & ~3) | k;
    const Scale s = lanes >= packs_held ? Scale{shuffle(of_one.inverse, one), shuffle(of_one.scale, one)}
                                        : scale_of(p.how, most[k]);
    if (first + k * step >= size) continue;
    write_words(quantized_pack<T, counted, n>(f, words[k], s, counts), p.y + first + k * step);
  }
  if constexpr (counted) write_counts(counts, p.parts);
}

// Blocks of one column: a thread has n neighbouring columns of a band of rows, which it reads twice.
template <class T, int n, bool counted>
__global__ void __launch_bounds__(rounding_threads) column_blocks_kernel(QuantizeBlocks<T> p, Rounding f) {
  const Index packs = p.columns / n, at = static_cast<Index>(blockIdx.x) * rounding_threads + threadIdx.x;
  const Index band = at / packs, column = at % packs * n, first = band * p.how.rows;
  // Empty behind the last band.
  const Index last = first + p.how.rows < p.rows ? first + p.how.rows : p.rows;
  std::uint32_t most[n] = {};
  for (Index row = first; row < last; ++row) {
    float x[n];
    load<n>(p.x + row * p.columns + column, x);
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) {
      const std::uint32_t bits = bits_of(x[j]) & 0x7FFFFFFFU;
      most[j] = bits > most[j] ? bits : most[j];
    }
  }
  Scale s[n];
  LONGHAUL_UNROLL
  for (int j = 0; j < n; ++j) s[j] = scale_of(p.how, most[j]);
  Counts counts;
  for (Index row = first; row < last; ++row) {
    const Index i = row * p.columns + column;
    float x[n];
    load<n>(p.x + i, x);
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) x[j] = quantized<T, counted>(f, x[j], s[j].inverse, s[j].scale, counts);
    store<n>(x, p.y + i);
  }
  if constexpr (counted) write_counts(counts, p.parts);
}

__device__ inline std::uint32_t max_of_block(std::uint32_t most, std::uint32_t* shared) {
  LONGHAUL_UNROLL
  for (int mask = 1; mask < warp_size; mask *= 2) {
    const std::uint32_t other = shuffle_xor(most, mask);
    most = other > most ? other : most;
  }
  const int warps = static_cast<int>(blockDim.x) / warp_size;
  if (threadIdx.x % warp_size == 0) shared[threadIdx.x / warp_size] = most;
  sync_block();
  for (int i = 0; i < warps; ++i) most = shared[i] > most ? shared[i] : most;
  sync_block();
  return most;
}

// Blocks of any shape, each by one block of threads: squares, and what lies at odd places.
template <class T, bool counted>
__global__ void __launch_bounds__(rounding_threads) tile_kernel(QuantizeBlocks<T> p, Rounding f) {
  const Index across = (p.columns + p.how.columns - 1) / p.how.columns;
  const Index r0 = blockIdx.x / across * p.how.rows, c0 = blockIdx.x % across * p.how.columns;
  const Index height = r0 + p.how.rows < p.rows ? p.how.rows : p.rows - r0;
  const Index width = c0 + p.how.columns < p.columns ? p.how.columns : p.columns - c0;
  const auto place = [&](Index k) { return (r0 + k / width) * p.columns + c0 + k % width; };
  std::uint32_t most = 0;
  for (Index k = threadIdx.x; k < height * width; k += blockDim.x) {
    const std::uint32_t bits = bits_of(to_float(p.x[place(k)])) & 0x7FFFFFFFU;
    most = bits > most ? bits : most;
  }
  const Scale s = scale_of(p.how, max_of_block(most, reinterpret_cast<std::uint32_t*>(shared_memory())));
  Counts counts;
  for (Index k = threadIdx.x; k < height * width; k += blockDim.x) {
    const Index i = place(k);
    p.y[i] = from_float<T>(quantized<T, counted>(f, to_float(p.x[i]), s.inverse, s.scale, counts));
  }
  if constexpr (counted) write_counts(counts, p.parts);
}

template <class T, int n, bool counted>
__global__ void __launch_bounds__(rounding_threads)
    flat_kernel(Rounding f, Scale s, Index count, const T* x, T* y, double* parts) {
  const Index begin = blockIdx.x * flat_piece, end = begin + flat_piece < count ? begin + flat_piece : count;
  Counts counts;
  for (Index i = begin + static_cast<Index>(threadIdx.x) * n; i < end; i += rounding_threads * n) {
    float v[n];
    load<n>(x + i, v);
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) v[j] = quantized<T, counted>(f, v[j], s.inverse, s.scale, counts);
    store<n>(v, y + i);
  }
  if constexpr (counted) write_counts(counts, parts);
}

template <class T, int n>
__global__ void __launch_bounds__(rounding_threads) magnitude_kernel(Index count, const T* x, std::uint32_t* parts) {
  const Index begin = blockIdx.x * flat_piece, end = begin + flat_piece < count ? begin + flat_piece : count;
  std::uint32_t most = 0;
  for (Index i = begin + static_cast<Index>(threadIdx.x) * n; i < end; i += rounding_threads * n) {
    float v[n];
    load<n>(x + i, v);
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) {
      const std::uint32_t bits = bits_of(v[j]) & 0x7FFFFFFFU;
      most = bits > most ? bits : most;
    }
  }
  most = max_of_block(most, reinterpret_cast<std::uint32_t*>(shared_memory()));
  if (threadIdx.x == 0) parts[blockIdx.x] = most;
}

// By one block each.
__global__ void __launch_bounds__(rounding_threads)
    largest_part_kernel(Index count, const std::uint32_t* parts, std::uint32_t* out, bool keep) {
  std::uint32_t most = keep ? out[0] : 0;
  for (Index i = threadIdx.x; i < count; i += rounding_threads) most = parts[i] > most ? parts[i] : most;
  most = max_of_block(most, reinterpret_cast<std::uint32_t*>(shared_memory()));
  if (threadIdx.x == 0) out[0] = most;
}
__global__ void __launch_bounds__(rounding_threads) add_parts_kernel(Index count, const double* parts, double* out) {
  auto* const shared = reinterpret_cast<double*>(shared_memory());
  const Index stretch = (count + rounding_threads - 1) / rounding_threads, begin = threadIdx.x * stretch;
  for (int i = 0; i < quantization_sums; ++i) {
    double sum = 0;
    for (Index k = begin; k < begin + stretch && k < count; ++k) sum += parts[k * quantization_sums + i];
    sum = sum_over_block(sum, shared);
    if (threadIdx.x == 0) out[i] = sum;
  }
}

// How a quantisation is started: which kernel, with how many elements for each access.
enum class Shape { rows, columns, tiles };
struct Plan {
  Shape shape;
  bool wide;    // accesses of 16 bytes
  int lanes;    // of rows
  Index grid;   // blocks of threads
  int threads;  // in one
};
template <class T>
Plan plan_of(const QuantizeBlocks<T>& p) {
  constexpr int n = pack_of<T>;
  const bool aligned = rows_are_aligned<T>(p.columns, {p.x, p.y});
  if (p.how.columns == 1) {
    const Index bands = (p.rows + p.how.rows - 1) / p.how.rows, packs = aligned ? p.columns / n : p.columns;
    return {Shape::columns, aligned, 0, blocks_for(bands * packs, rounding_threads), rounding_threads};
  }
  const Index lanes = p.how.columns / n;
  if (p.how.rows == 1 && aligned && p.columns % p.how.columns == 0 && lanes <= warp_size && (lanes & (lanes - 1)) == 0)
    return {Shape::rows, true, static_cast<int>(lanes),
            blocks_for(p.rows * p.columns / n, packs_held * rounding_threads), rounding_threads};
  const Index tiles = (p.rows + p.how.rows - 1) / p.how.rows * ((p.columns + p.how.columns - 1) / p.how.columns);
  return {Shape::tiles, false, 0, tiles, p.how.rows * p.how.columns <= 128 ? warp_size : rounding_threads};
}

template <class T, bool counted>
void start(cudaStream_t stream, const QuantizeBlocks<T>& p) {
  constexpr int n = pack_of<T>;
  const Plan plan = plan_of(p);
  const Rounding f = rounding_of(p.how.format);
  const dim3 grid(static_cast<unsigned>(plan.grid)), block(static_cast<unsigned>(plan.threads));
  if (plan.shape == Shape::rows)
    launch("quantize_row_blocks", stream, row_blocks_kernel<T, counted>, grid, block, shared_sums, p, f, plan.lanes);
  else if (plan.shape == Shape::columns && plan.wide)
    launch("quantize_column_blocks", stream, column_blocks_kernel<T, n, counted>, grid, block, shared_sums, p, f);
  else if (plan.shape == Shape::columns)
    launch("quantize_column_blocks", stream, column_blocks_kernel<T, 1, counted>, grid, block, shared_sums, p, f);
  else
    launch("quantize_tiles", stream, tile_kernel<T, counted>, grid, block, shared_sums, p, f);
}

}  // namespace

template <class T>
Index quantize_blocks_parts(const QuantizeBlocks<T>& p) {
  return plan_of(p).grid;
}
template <class T>
void quantize_blocks(cudaStream_t stream, const QuantizeBlocks<T>& p) {
  if (p.rows == 0 || p.columns == 0) return;
  if (p.parts != nullptr)
    start<T, true>(stream, p);
  else
    start<T, false>(stream, p);
}

Index quantize_flat_parts(Index n) {
  return (n + flat_piece - 1) / flat_piece;
}
template <class T>
void quantize_flat(cudaStream_t stream, NumberFormat format, float scale, Index n, const T* x, T* y, double* parts) {
  if (n == 0) return;
  const Scale s{1.0F / scale, scale};
  with_width<T>(n, {x, y}, [&](auto width) {
    constexpr int wide = decltype(width)::value;
    const auto kernel = parts != nullptr ? flat_kernel<T, wide, true> : flat_kernel<T, wide, false>;
    launch("quantize_flat", stream, kernel, dim3(blocks_for(n, flat_piece)), dim3(rounding_threads), shared_sums,
           rounding_of(format), s, n, x, y, parts);
  });
}
void add_quantization_parts(cudaStream_t stream, Index count, const double* parts, double* out) {
  launch("add_quantization_parts", stream, add_parts_kernel, dim3(1), dim3(rounding_threads), shared_sums, count, parts,
         out);
}
namespace {
template <class T>
void largest(cudaStream_t stream, Index n, const T* x, std::uint32_t* parts, std::uint32_t* out, bool keep) {
  with_width<T>(n, {x}, [&](auto width) {
    launch("largest_magnitude", stream, magnitude_kernel<T, decltype(width)::value>, dim3(blocks_for(n, flat_piece)),
           dim3(rounding_threads), shared_sums, n, x, parts);
  });
  launch("largest_part", stream, largest_part_kernel, dim3(1), dim3(rounding_threads), shared_sums,
         quantize_flat_parts(n), static_cast<const std::uint32_t*>(parts), out, keep);
}
}  // namespace
template <class T>
void largest_magnitude(cudaStream_t stream, Index n, const T* x, std::uint32_t* parts, std::uint32_t* out) {
  largest(stream, n, x, parts, out, false);
}
template <class T>
void keep_largest_magnitude(cudaStream_t stream, Index n, const T* x, std::uint32_t* parts, std::uint32_t* out) {
  largest(stream, n, x, parts, out, true);
}

#define LONGHAUL_LOW_PRECISION(T)                                                                 \
  template Index quantize_blocks_parts(const QuantizeBlocks<T>&);                                 \
  template void quantize_blocks(cudaStream_t, const QuantizeBlocks<T>&);                          \
  template void quantize_flat(cudaStream_t, NumberFormat, float, Index, const T*, T*, double*);   \
  template void largest_magnitude(cudaStream_t, Index, const T*, std::uint32_t*, std::uint32_t*); \
  template void keep_largest_magnitude(cudaStream_t, Index, const T*, std::uint32_t*, std::uint32_t*);
LONGHAUL_LOW_PRECISION(float)
LONGHAUL_LOW_PRECISION(bf16)

}  // namespace longhaul::cuda
