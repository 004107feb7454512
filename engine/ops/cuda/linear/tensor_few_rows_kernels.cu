// y^T = W x^T: 16 rows of W and all rows of x, as eight columns, are a product of the tensor cores. Which number of a
// row takes which place in the sum is free, as long as W and x agree: a thread reads 16 bytes of each of its two rows
// of W, and the numbers of x at the same places. The warps of a block share the columns of W out among themselves, so
// that enough is under way where W has few rows; their sums are added in their order. W travels to shared memory some
// turns ahead, each thread's part of it to places of its own; x, which all blocks read, comes from the caches a turn
// ahead.
#include "engine/ops/cuda/common/packs.h"
#include "engine/ops/cuda/common/row_access.h"
#include "engine/ops/cuda/linear/int4_codes.h"
#include "engine/ops/cuda/linear/tensor_few_rows_kernels.h"
#include "engine/ops/cuda/linear/weight_only_kernels.h"

namespace longhaul::cuda {
namespace {

constexpr int few_rows_threads = 256, few_rows_warps = few_rows_threads / warp_size;
constexpr int tile_rows = 16, tile_tokens = 8, sums_of_warp = tile_rows * tile_tokens;
constexpr int stages = 8;  // turns under way, the one that is computed among them

// The numbers of 16 bytes of W as pairs of bf16; those of eight bits are numbers of bf16 too.
__device__ inline void to_pairs(const bf16*, const Words& from, std::uint32_t (&to)[4]) {
  LONGHAUL_UNROLL
  for (int i = 0; i < 4; ++i) to[i] = from.at[i];
}
// With its sign turned a code is 0 to 255, which behind the exponent of 2^23 is that number above it.
__device__ inline float number_of(const std::int8_t*, std::uint32_t word, int i) {
  return std::bit_cast<float>(((word ^ 0x80808080U) >> (8 * i) & 0xFFU) | 0x4B000000U) - (8388608.0F + 128.0F);
}
__device__ inline float number_of(const E4m3*, std::uint32_t word, int i) {
  return to_float(E4m3{static_cast<std::uint8_t>(word >> (8 * i))});
}
template <class W>
__device__ inline void to_pairs(const W* type, const Words& from, std::uint32_t (&to)[8]) {
  LONGHAUL_UNROLL
  for (int i = 0; i < 8; ++i)
    to[i] = pack_bf16(number_of(type, from.at[i / 2], i % 2 * 2), number_of(type, from.at[i / 2], i % 2 * 2 + 1));
}

// What a block's warps have of 16 rows, d of multiply_add(), added in their order, by its scale, and written.
template <class Y>
__device__ inline void write_sums(const float (&d)[4], float* sums, Index tokens, Index out, const float* scales,
                                  Y* y) {
  const int thread = static_cast<int>(threadIdx.x), group = thread % warp_size / 4, place = thread % 4;
  float* const of_warp = sums + thread / warp_size * sums_of_warp;  // [few_rows_warps, tile_rows, tile_tokens]
  LONGHAUL_UNROLL
  for (int i = 0; i < 4; ++i) of_warp[(group + i / 2 * 8) * tile_tokens + place * 2 + i % 2] = d[i];
  sync_block();
  const int token = thread / tile_rows, here = thread % tile_rows;
  const Index row = static_cast<Index>(blockIdx.x) * tile_rows + here;
  if (token >= tokens || row >= out) return;
  float sum = 0.0F;
  LONGHAUL_UNROLL
  for (int j = 0; j < few_rows_warps; ++j) sum += sums[j * sums_of_warp + here * tile_tokens + token];
  y[token * out + row] = from_float<Y>(scales != nullptr ? sum * scales[row] : sum);
}

__device__ inline std::uint32_t lower_halves(std::uint32_t a, std::uint32_t b) {
  return (a & 0xFFFFU) | b << 16;
}
__device__ inline std::uint32_t upper_halves(std::uint32_t a, std::uint32_t b) {
  return a >> 16 | (b & 0xFFFF0000U);
}

// Rows behind the last one are the last one again; nobody asks for what comes of them.
template <class W, class Y>
__global__ void __launch_bounds__(few_rows_threads) few_rows_kernel(FewRows<bf16, W, Y> p) {
  constexpr int each = 16 / static_cast<int>(sizeof(W)), pairs = each / 2, x_words = each / 8;
  constexpr int turn = few_rows_warps * 4 * each;                // columns
  auto* const held = reinterpret_cast<Words*>(shared_memory());  // [stages, 2, few_rows_threads]
  const int thread = static_cast<int>(threadIdx.x), warp = thread / warp_size;
  const int group = thread % warp_size / 4, place = thread % 4, in = static_cast<int>(p.in);
  const Index row = static_cast<Index>(blockIdx.x) * tile_rows, last = p.out - 1;
  const auto of_weight = [&](Index r) { return p.weight + (r < last ? r : last) * p.in; };
  const W *const upper = of_weight(row + group), *const lower = of_weight(row + group + 8);
  const bf16* const x = p.x + (group < p.tokens ? group : p.tokens - 1) * p.in;
  const int first = (warp * 4 + place) * each;
  const auto ask = [&](int t) {
    const int i = first + t * turn;
    Words* const to = held + t % stages * 2 * few_rows_threads + thread;
    if (i < in) copy_later(to, upper + i), copy_later(to + few_rows_threads, lower + i);
    end_copy_group();
  };
  Words next[x_words] = {};
  const auto ask_x = [&](int t) {
    LONGHAUL_UNROLL
    for (int j = 0; j < x_words; ++j)
      if (first + t * turn < in) next[j] = read_words(x + first + t * turn + 8 * j);
  };
  for (int t = 0; t < stages - 1; ++t) ask(t);
  ask_x(0);
  float d[4] = {};
  for (int t = 0; t * turn + warp * 4 * each < in; ++t) {  // the same for all threads of the warp
    ask(t + stages - 1);
    Words of_x[x_words];
    LONGHAUL_UNROLL
    for (int j = 0; j < x_words; ++j) of_x[j] = next[j];
    ask_x(t + 1);
    wait_for_copy_groups<stages - 1>();
    const Words* const from = held + t % stages * 2 * few_rows_threads + thread;
    Words w[2] = {};
    if (first + t * turn < in) w[0] = from[0], w[1] = from[few_rows_threads];
    std::uint32_t above[pairs], below[pairs];
    to_pairs(static_cast<const W*>(nullptr), w[0], above), to_pairs(static_cast<const W*>(nullptr), w[1], below);
    if (first + t * turn >= in) {
      LONGHAUL_UNROLL
      for (int j = 0; j < x_words; ++j) of_x[j] = Words{};
      LONGHAUL_UNROLL
      for (int j = 0; j < pairs; ++j) above[j] = below[j] = 0;
    }
    LONGHAUL_UNROLL
    for (int j = 0; j < pairs; j += 2)
      multiply_add(d, {above[j], below[j], above[j + 1], below[j + 1]},
                   {of_x[j / 4].at[j % 4], of_x[j / 4].at[j % 4 + 1]});
  }
  wait_for_copy_groups<0>();
  sync_block();
  write_sums(d, reinterpret_cast<float*>(held), p.tokens, p.out, p.scales, p.y);
}

// Codes of four bits. A warp's turn is 128 columns, which are in one group: its scale goes to the sum of the turn. Code
// j of a word and code j + 4 are a pair of bf16: 128 + code has the code in its lowest bits.
template <class Y>
__global__ void __launch_bounds__(few_rows_threads) few_rows_int4_kernel(FewRowsInt4<bf16, Y> p) {
  constexpr int each = 32, x_words = each / 8, turn = few_rows_warps * 4 * each;
  auto* const held = reinterpret_cast<Words*>(shared_memory());  // [stages, 2, few_rows_threads]
  const int thread = static_cast<int>(threadIdx.x), warp = thread / warp_size;
  const int group = thread % warp_size / 4, place = thread % 4, in = static_cast<int>(p.in);
  const int columns_of_group = static_cast<int>(p.weight.group);
  const Index last = p.out - 1, row = static_cast<Index>(blockIdx.x) * tile_rows + group;
  const Index rows[2] = {row < last ? row : last, row + 8 < last ? row + 8 : last};
  const bf16* const x = p.x + (group < p.tokens ? group : p.tokens - 1) * p.in;
  const int first = (warp * 4 + place) * each;
  const auto ask = [&](int t) {
    const int i = first + t * turn;
    Words* const to = held + t % stages * 2 * few_rows_threads + thread;
    LONGHAUL_UNROLL
    for (int r = 0; r < 2; ++r)
      if (i < in) copy_later(to + r * few_rows_threads, p.weight.codes + rows[r] * p.weight.row_bytes + i / 2);
    end_copy_group();
  };
  for (int t = 0; t < stages - 1; ++t) ask(t);
  Words next_x[x_words] = {};
  float next_scale[2] = {}, next_zero[2] = {};
  // The sums of a turn are spread over the warp: scales are those of its first column, for all threads.
  const auto ask_ahead = [&](int t) {
    const int begin = warp * 4 * each + t * turn, i = first + t * turn;
    LONGHAUL_UNROLL
    for (int j = 0; j < x_words; ++j)
      if (i < in) next_x[j] = read_words(x + i + 8 * j);
    LONGHAUL_UNROLL
    for (int r = 0; r < 2; ++r) {
      if (begin >= in) break;
      const Index at = rows[r] * p.weight.groups + begin / columns_of_group;
      next_scale[r] = scale_at(p.weight, at), next_zero[r] = zero_at(p.weight, at);
    }
  };
  ask_ahead(0);
  float d[4] = {};
  for (int t = 0; t * turn + warp * 4 * each < in; ++t) {  // the same for all threads of the warp
    ask(t + stages - 1);
    const bool here = first + t * turn < in;
    Words of_x[x_words] = {};
    LONGHAUL_UNROLL
    for (int j = 0; j < x_words; ++j)
      if (here) of_x[j] = next_x[j];
    const float scale[2] = {next_scale[0], next_scale[1]};
    std::uint32_t minus[2];
    LONGHAUL_UNROLL
    for (int r = 0; r < 2; ++r) minus[r] = pack_bf16(-128.0F - next_zero[r], -128.0F - next_zero[r]);
    ask_ahead(t + 1);
    wait_for_copy_groups<stages - 1>();
    const Words* const from = held + t % stages * 2 * few_rows_threads + thread;
    Words w[2] = {};
    if (here) w[0] = from[0], w[1] = from[few_rows_threads];
    float of_turn[4] = {};
    LONGHAUL_UNROLL
    for (int j = 0; j < 4; ++j) {  // 32 bits, eight codes
      const std::uint32_t* const xs = of_x[j].at;
      std::uint32_t a[2][4];
      LONGHAUL_UNROLL
      for (int r = 0; r < 2; ++r) LONGHAUL_UNROLL
      for (int i = 0; i < 4; ++i) a[r][i] = add_pairs((w[r].at[j] >> (4 * i) & 0x000F000FU) | 0x43004300U, minus[r]);
      const std::uint32_t b[4] = {lower_halves(xs[0], xs[2]), upper_halves(xs[0], xs[2]), lower_halves(xs[1], xs[3]),
                                  upper_halves(xs[1], xs[3])};
      multiply_add(of_turn, {a[0][0], a[1][0], a[0][1], a[1][1]}, {b[0], b[1]});
      multiply_add(of_turn, {a[0][2], a[1][2], a[0][3], a[1][3]}, {b[2], b[3]});
    }
    LONGHAUL_UNROLL
    for (int i = 0; i < 4; ++i) d[i] += scale[i / 2] * of_turn[i];
  }
  wait_for_copy_groups<0>();
  sync_block();
  write_sums(d, reinterpret_cast<float*>(held), p.tokens, p.out, static_cast<const float*>(nullptr), p.y);
}

}  // namespace

template <class W, class Y>
bool few_rows_by_tensor_cores(cudaStream_t stream, const FewRows<bf16, W, Y>& p) {
  static_assert(product_tokens_max <= tile_tokens);
  constexpr Index in_max = Index{1} << 30;
  if (!rows_are_aligned<W>(p.in, {p.weight, p.x}) || p.in >= in_max) return false;
  launch("few_rows_product", stream, few_rows_kernel<W, Y>, dim3(blocks_for(p.out, tile_rows)), dim3(few_rows_threads),
         stages * 2 * few_rows_threads * sizeof(Words), p);
  return true;
}

template <class Y>
bool few_rows_int4_by_tensor_cores(cudaStream_t stream, const FewRowsInt4<bf16, Y>& p) {
  constexpr Index in_max = Index{1} << 30, columns_of_turn = 128;
  if (p.in % 32 != 0 || p.in >= in_max || p.weight.group % columns_of_turn != 0) return false;
  if (!rows_are_aligned<std::uint8_t>(p.weight.row_bytes, {p.weight.codes, p.x})) return false;
  launch("few_rows_int4", stream, few_rows_int4_kernel<Y>, dim3(blocks_for(p.out, tile_rows)), dim3(few_rows_threads),
         stages * 2 * few_rows_threads * sizeof(Words), p);
  return true;
}

#define LONGHAUL_TENSOR_FEW_ROWS(Y)                                                           \
  template bool few_rows_by_tensor_cores(cudaStream_t, const FewRows<bf16, bf16, Y>&);        \
  template bool few_rows_by_tensor_cores(cudaStream_t, const FewRows<bf16, std::int8_t, Y>&); \
  template bool few_rows_by_tensor_cores(cudaStream_t, const FewRows<bf16, E4m3, Y>&);        \
  template bool few_rows_int4_by_tensor_cores(cudaStream_t, const FewRowsInt4<bf16, Y>&);
LONGHAUL_TENSOR_FEW_ROWS(float)
LONGHAUL_TENSOR_FEW_ROWS(bf16)

}  // namespace longhaul::cuda
