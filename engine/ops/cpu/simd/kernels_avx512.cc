// The kernels for AVX-512.
#if defined(__x86_64__) && !defined(LONGHAUL_LEAVE_OUT_LEVEL)
#include <immintrin.h>
#endif

#include <cstdint>

#include "engine/ops/cpu/simd/kernels.h"
#include "engine/ops/cpu/simd/kernels_table.h"

#if defined(__x86_64__) && !defined(LONGHAUL_LEAVE_OUT_LEVEL)
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c,bmi2")
#define LH_AVX512 1
#define LH_TILE_LANES 16
#define LH_TILE_VECTORS 4
#define LH_TILE_ROWS 6

namespace longhaul::cpu {
namespace level_avx512 {
#include "engine/ops/cpu/simd/kernels.inc"
#include "engine/ops/cpu/simd/kernels_attention.inc"
#include "engine/ops/cpu/simd/kernels_few_bits.inc"
#include "engine/ops/cpu/simd/kernels_layernorm_gelu.inc"
#include "engine/ops/cpu/simd/kernels_low_precision.inc"
#include "engine/ops/cpu/simd/kernels_make.inc"
}  // namespace level_avx512

const Kernels* kernels_avx512() {
  static constexpr Kernels table = level_avx512::make_kernels(CpuLevel::avx512);
  return &table;
}
}  // namespace longhaul::cpu
#pragma GCC pop_options
#else
namespace longhaul::cpu {
const Kernels* kernels_avx512() {
  return nullptr;
}
}  // namespace longhaul::cpu
#endif
