// The kernels for AVX-512 with bf16 products (vdpbf16ps): attention multiplies in bf16 and adds in f32. Those for AMX
// are the same but for attention's products.
#if defined(__x86_64__) && !defined(LONGHAUL_LEAVE_OUT_LEVEL)
#include <immintrin.h>
#endif

#include <cstdint>

#include "engine/ops/cpu/simd/kernels.h"
#include "engine/ops/cpu/simd/kernels_table.h"

#if defined(__x86_64__) && !defined(LONGHAUL_LEAVE_OUT_LEVEL)
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,avx2,fma,f16c,bmi2")
#define LH_AVX512 1
#define LH_NATIVE_BF16 1
#define LH_TILE_LANES 16
#define LH_TILE_VECTORS 4
#define LH_TILE_ROWS 6

namespace longhaul::cpu {
namespace level_avx512_bf16 {
#include "engine/ops/cpu/simd/kernels.inc"
#include "engine/ops/cpu/simd/kernels_amx.inc"
#include "engine/ops/cpu/simd/kernels_attention.inc"
#include "engine/ops/cpu/simd/kernels_attention_bf16.inc"
#include "engine/ops/cpu/simd/kernels_attention_tiles.inc"
#include "engine/ops/cpu/simd/kernels_attention_vectors.inc"
#include "engine/ops/cpu/simd/kernels_few_bits.inc"
#include "engine/ops/cpu/simd/kernels_layernorm_gelu.inc"
#include "engine/ops/cpu/simd/kernels_low_precision.inc"
#include "engine/ops/cpu/simd/kernels_make.inc"
}  // namespace level_avx512_bf16

const Kernels* kernels_avx512_bf16() {
  static constexpr Kernels table = level_avx512_bf16::make_kernels(CpuLevel::avx512_bf16);
  return &table;
}
const Kernels* kernels_amx() {
  static constexpr Kernels table =
      level_avx512_bf16::make_kernels_with_tiles<level_avx512_bf16::AmxTiles>(CpuLevel::amx);
  return &table;
}
}  // namespace longhaul::cpu
#pragma GCC pop_options
#else
namespace longhaul::cpu {
const Kernels* kernels_avx512_bf16() {
  return nullptr;
}
const Kernels* kernels_amx() {
  return nullptr;
}
}  // namespace longhaul::cpu
#endif
