#include "engine/ops/cuda/common/row_access.h"
#include "engine/ops/cuda/linear/decode_kernels.h"
#include "engine/ops/cuda/linear/int4_codes.h"
#include "engine/ops/cuda/linear/tensor_few_rows_kernels.h"
#include "engine/ops/cuda/linear/weight_only_kernels.h"

namespace longhaul::cuda {
namespace {

constexpr int weight_only_threads = 128, weight_only_warps = weight_only_threads / warp_size;
constexpr int words_ahead = 4;

// Code j of a word, as 2^23 + code: with the code in its lowest bits, an f32 of that exponent is it.
__device__ inline float shifted_code(std::uint32_t word, int j) {
  return std::bit_cast<float>((word >> (4 * j) & 15U) | 0x4B000000U);
}
constexpr float code_shift = 8388608.0F;

// A warp for each row; its lanes take neighbouring words of eight codes, so that what they read of x lies together too.
// shift: of the group's size, where it is a power of two; else -1.
template <class X, class Y, int tokens_max>
__global__ void __launch_bounds__(weight_only_threads) few_rows_words_kernel(FewRowsInt4<X, Y> p, int shift) {
  constexpr int n = 8;
  const Index row = static_cast<Index>(blockIdx.x) * weight_only_warps + threadIdx.x / warp_size;
  const int lane = static_cast<int>(threadIdx.x) % warp_size, in = static_cast<int>(p.in);
  const int group = static_cast<int>(p.weight.group);
  float sums[tokens_max] = {};
  if (row < p.out) {
    const auto* const words = reinterpret_cast<const std::uint32_t*>(p.weight.codes + row * p.weight.row_bytes);
    for (int begin = lane * n; begin < in; begin += words_ahead * warp_size * n) {
      std::uint32_t word[words_ahead];
      LONGHAUL_UNROLL
      for (int a = 0; a < words_ahead; ++a) {
        const int i = begin + a * warp_size * n;
        word[a] = i < in ? words[i / n] : 0;
      }
      LONGHAUL_UNROLL
      for (int a = 0; a < words_ahead; ++a) {
        const int i = begin + a * warp_size * n;
        if (i >= in) break;
        const Index of_group = row * p.weight.groups + (shift >= 0 ? i >> shift : i / group);
        const float scale = scale_at(p.weight, of_group), zero = code_shift + zero_at(p.weight, of_group);
        float w[n];
        LONGHAUL_UNROLL
        for (int j = 0; j < n; ++j) w[j] = shifted_code(word[a], j) - zero;
        LONGHAUL_UNROLL
        for (int t = 0; t < tokens_max; ++t) {
          if (t >= p.tokens) break;
          float x[n], sum = 0.0F;
          load_packs<n>(p.x + t * p.in + i, x);
          LONGHAUL_UNROLL
          for (int j = 0; j < n; ++j) sum += x[j] * w[j];
          sums[t] += scale * sum;
        }
      }
    }
  }
  LONGHAUL_UNROLL
  for (int t = 0; t < tokens_max; ++t) {
    const float sum = sum_over_warp(sums[t]);
    if (lane == 0 && row < p.out && t < p.tokens) p.y[t * p.out + row] = from_float<Y>(sum);
  }
}

__device__ inline float weight_at(const Int4Rows& w, Index row, Index i) {
  const unsigned code = w.codes[row * w.row_bytes + i / 2] >> (i % 2 * 4) & 15U;
  const Index of_group = row * w.groups + i / w.group;
  return (static_cast<float>(code) - zero_at(w, of_group)) * scale_at(w, of_group);
}

// Any number of columns, groups and addresses.
template <class X, class Y>
__global__ void __launch_bounds__(weight_only_threads) few_rows_any_kernel(FewRowsInt4<X, Y> p) {
  const Index row = static_cast<Index>(blockIdx.x) * weight_only_warps + threadIdx.x / warp_size;
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  for (Index t = 0; t < p.tokens; ++t) {
    float sum = 0.0F;
    if (row < p.out)
      for (Index i = lane; i < p.in; i += warp_size) sum += to_float(p.x[t * p.in + i]) * weight_at(p.weight, row, i);
    sum = sum_over_warp(sum);
    if (lane == 0 && row < p.out) p.y[t * p.out + row] = from_float<Y>(sum);
  }
}

template <class T>
__global__ void __launch_bounds__(weight_only_threads)
    unpack_fp8_kernel(Index rows, Index columns, const std::uint8_t* codes, const float* scales, T* out) {
  const Index i = static_cast<Index>(blockIdx.x) * weight_only_threads + threadIdx.x;
  if (i < rows * columns) out[i] = from_float<T>(to_float(E4m3{codes[i]}) * scales[i / columns]);
}
template <class T>
__global__ void __launch_bounds__(weight_only_threads)
    unpack_int4_kernel(Index rows, Index columns, Int4Rows weight, T* out) {
  const Index i = static_cast<Index>(blockIdx.x) * weight_only_threads + threadIdx.x;
  if (i < rows * columns) out[i] = from_float<T>(weight_at(weight, i / columns, i % columns));
}

int shift_of(Index group) {
  int shift = 0;
  while ((Index{1} << shift) < group) ++shift;
  return (Index{1} << shift) == group ? shift : -1;
}
template <class X, class Y>
bool in_whole_words(const FewRowsInt4<X, Y>& p) {
  return p.in % 8 == 0 && p.in < (Index{1} << 31) && p.weight.group % 8 == 0 &&
         reinterpret_cast<std::uintptr_t>(p.x) % 16 == 0 && reinterpret_cast<std::uintptr_t>(p.weight.codes) % 4 == 0;
}

}  // namespace

template <class X, class Y>
void few_rows_int4(cudaStream_t stream, const FewRowsInt4<X, Y>& p) {
  if constexpr (std::is_same_v<X, bf16>)
    if (few_rows_int4_by_tensor_cores(stream, p)) return;
  const dim3 grid(blocks_for(p.out, weight_only_warps)), block(weight_only_threads);
  if (!in_whole_words(p)) return launch("few_rows_int4", stream, few_rows_any_kernel<X, Y>, grid, block, 0, p);
  const auto kernel = p.tokens == 1   ? few_rows_words_kernel<X, Y, 1>
                      : p.tokens <= 4 ? few_rows_words_kernel<X, Y, 4>
                                      : few_rows_words_kernel<X, Y, 8>;
  launch("few_rows_int4", stream, kernel, grid, block, 0, p, shift_of(p.weight.group));
}
template <class T>
void unpack_fp8(cudaStream_t stream, Index rows, Index columns, const std::uint8_t* codes, const float* scales,
                T* out) {
  launch("unpack_fp8", stream, unpack_fp8_kernel<T>, dim3(blocks_for(rows * columns, weight_only_threads)),
         dim3(weight_only_threads), 0, rows, columns, codes, scales, out);
}
template <class T>
void unpack_int4(cudaStream_t stream, Index rows, Index columns, const Int4Rows& weight, T* out) {
  launch("unpack_int4", stream, unpack_int4_kernel<T>, dim3(blocks_for(rows * columns, weight_only_threads)),
         dim3(weight_only_threads), 0, rows, columns, weight, out);
}

#define LONGHAUL_FEW_ROWS_INT4(X)                                                              \
  template void few_rows_int4(cudaStream_t, const FewRowsInt4<X, float>&);                     \
  template void few_rows_int4(cudaStream_t, const FewRowsInt4<X, bf16>&);                      \
  template void unpack_fp8(cudaStream_t, Index, Index, const std::uint8_t*, const float*, X*); \
  template void unpack_int4(cudaStream_t, Index, Index, const Int4Rows&, X*);
LONGHAUL_FEW_ROWS_INT4(float)
LONGHAUL_FEW_ROWS_INT4(bf16)

}  // namespace longhaul::cuda
