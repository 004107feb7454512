// What kernels share: conversions, accesses of 16 bytes, sums over a warp and a block in a fixed order.
#pragma once

#include "engine/ops/cuda/common/cuda_api.h"
#include "engine/ops/cuda/common/stream.h"

namespace longhaul::cuda {

inline constexpr int warp_size = 32;

__device__ inline int lane_here() {
  return static_cast<int>(threadIdx.x) % warp_size;
}

__device__ inline float to_float(float x) {
  return x;
}
__device__ inline float to_float(bf16 x) {
  return static_cast<float>(x);
}
__device__ inline float to_float(std::int8_t x) {
  return static_cast<float>(x);
}
// E4M3 (engine/ops/linear/number_formats.h). Shifted into an f32's place the bits are the number times 2^-120,
// subnormal ones too.
struct E4m3 {
  std::uint8_t code;
};
__device__ inline float to_float(E4m3 x) {
  const std::uint32_t bits = x.code;
  return std::bit_cast<float>((bits & 0x80U) << 24 | (bits & 0x7FU) << 20) * 0x1p120F;
}
template <class T>
__device__ inline T from_float(float x) {
  return T(x);
}

// As many elements as fit into one access of 16 bytes; or one, where rows do not begin at multiples of 16 bytes.
template <class T, int n>
struct alignas(n * sizeof(T)) Pack {
  T value[n];
};
template <class T>
inline constexpr int pack_of = 16 / static_cast<int>(sizeof(T));

template <int n, class T>
__device__ inline void load(const T* from, float (&to)[n]) {
  const Pack<T, n> pack = *reinterpret_cast<const Pack<T, n>*>(from);
  LONGHAUL_UNROLL
  for (int i = 0; i < n; ++i) to[i] = to_float(pack.value[i]);
}
// n elements in accesses of 16 bytes, or of fewer where n is fewer.
template <int n, class T>
__device__ inline void load_packs(const T* from, float (&to)[n]) {
  constexpr int each = n < pack_of<T> ? n : pack_of<T>;
  LONGHAUL_UNROLL
  for (int i = 0; i < n; i += each) {
    const Pack<T, each> pack = *reinterpret_cast<const Pack<T, each>*>(from + i);
    LONGHAUL_UNROLL
    for (int j = 0; j < each; ++j) to[i + j] = to_float(pack.value[j]);
  }
}
template <int n, class T>
__device__ inline void store(const float (&from)[n], T* to) {
  Pack<T, n> pack;
  LONGHAUL_UNROLL
  for (int i = 0; i < n; ++i) pack.value[i] = from_float<T>(from[i]);
  *reinterpret_cast<Pack<T, n>*>(to) = pack;
}

// All threads of the warp get the sum; pairs of neighbours first, always in the same order.
template <class F>
__device__ inline F sum_over_warp(F x) {
  LONGHAUL_UNROLL
  for (int mask = 1; mask < warp_size; mask *= 2) x += shuffle_xor(x, mask);
  return x;
}
// The larger; NaN when one of them is (fmaxf() would lose it, and with it the sign that a step has gone wrong).
__device__ inline float larger(float a, float b) {
  return a > b || a != a ? a : b;
}
__device__ inline float max_over_warp(float x) {
  LONGHAUL_UNROLL
  for (int mask = 1; mask < warp_size; mask *= 2) x = larger(x, shuffle_xor(x, mask));
  return x;
}

// The same over a block of whole warps, with `parts`: one number per warp in shared memory, free again after the call.
template <class F>
__device__ inline F sum_over_block(F x, F* parts) {
  const int warps = static_cast<int>(blockDim.x) / warp_size, warp = static_cast<int>(threadIdx.x) / warp_size;
  x = sum_over_warp(x);
  if (warps == 1) return x;
  if (threadIdx.x % warp_size == 0) parts[warp] = x;
  sync_block();
  F sum = 0;
  for (int i = 0; i < warps; ++i) sum += parts[i];
  sync_block();
  return sum;
}

__device__ inline float max_over_block(float x, float* parts) {
  const int warps = static_cast<int>(blockDim.x) / warp_size, warp = static_cast<int>(threadIdx.x) / warp_size;
  x = max_over_warp(x);
  if (warps == 1) return x;
  if (threadIdx.x % warp_size == 0) parts[warp] = x;
  sync_block();
  float top = parts[0];
  for (int i = 1; i < warps; ++i) top = larger(top, parts[i]);
  sync_block();
  return top;
}

}  // namespace longhaul::cuda
