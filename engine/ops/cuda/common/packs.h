// What kernels of rows use whose speed is that of memory: 16 bytes of a row in registers as they lie in memory, copies
// into shared memory that are waited for group by group, and the GPU's own conversions. Beside cuda_api.h the second
// place where assembly stands.
#pragma once

#include <type_traits>

#include "engine/ops/cuda/common/device_code.h"

namespace longhaul::cuda {

#ifdef LONGHAUL_CUDA_EMULATED
void end_copy_group();
void wait_for_copy_groups(int left);
template <int left>
void wait_for_copy_groups() {
  wait_for_copy_groups(left);
}
inline float exp2_fast(float x) {
  return std::exp2(x);
}
std::uint32_t add_pairs(std::uint32_t a, std::uint32_t b);
#else
// The copies that this thread asked for (copy_later) since the last call are a group, which may be empty.
__device__ inline void end_copy_group() {
  asm volatile("cp.async.commit_group;\n" ::: "memory");
}
// All groups of this thread but the last `left` are there.
template <int left>
__device__ inline void wait_for_copy_groups() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(left) : "memory");
}
// 2^x within two units in the last place; 0 below the normal numbers.
__device__ inline float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
}
// Sums of two pairs of bf16 (a times one, as GPUs before 9.0 have no other).
__device__ inline std::uint32_t add_pairs(std::uint32_t a, std::uint32_t b) {
  std::uint32_t sums;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;\n" : "=r"(sums) : "r"(a), "r"(0x3F803F80U), "r"(b));
  return sums;
}
#endif

struct alignas(16) Words {
  std::uint32_t at[4];
};
__device__ inline Words read_words(const void* from) {
  return *reinterpret_cast<const Words*>(from);
}
__device__ inline void write_words(const Words& words, void* to) {
  *reinterpret_cast<Words*>(to) = words;
}

__device__ inline float low_half(std::uint32_t word) {
  return std::bit_cast<float>(word << 16);
}
__device__ inline float high_half(std::uint32_t word) {
  return std::bit_cast<float>(word & 0xFFFF0000U);
}

// pack_of<T> elements of T.
template <class T, int n>
__device__ inline void unpack(const Words& words, float (&to)[n]) {
  static_assert(n == pack_of<T>);
  LONGHAUL_UNROLL
  for (int i = 0; i < 4; ++i)
    if constexpr (std::is_same_v<T, bf16>)
      to[2 * i] = low_half(words.at[i]), to[2 * i + 1] = high_half(words.at[i]);
    else
      to[i] = std::bit_cast<float>(words.at[i]);
}
// Rounded as from_float<T> does it, but for NaN of bf16, of which the GPU has one.
template <class T, int n>
__device__ inline Words packed(const float (&from)[n]) {
  static_assert(n == pack_of<T>);
  Words words;
  LONGHAUL_UNROLL
  for (int i = 0; i < 4; ++i)
    if constexpr (std::is_same_v<T, bf16>)
      words.at[i] = pack_bf16(from[2 * i], from[2 * i + 1]);
    else
      words.at[i] = std::bit_cast<std::uint32_t>(from[i]);
  return words;
}

}  // namespace longhaul::cuda
