// The kernels for any processor: 4 lanes, as SSE2 and NEON have.
#include <cstdint>

#include "engine/ops/cpu/simd/kernels.h"
#include "engine/ops/cpu/simd/kernels_table.h"

#define LH_TILE_LANES 4
#define LH_TILE_VECTORS 2
#define LH_TILE_ROWS 4

namespace longhaul::cpu {
namespace level_portable {
#include "engine/ops/cpu/simd/kernels.inc"
#include "engine/ops/cpu/simd/kernels_attention.inc"
#include "engine/ops/cpu/simd/kernels_few_bits.inc"
#include "engine/ops/cpu/simd/kernels_layernorm_gelu.inc"
#include "engine/ops/cpu/simd/kernels_low_precision.inc"
#include "engine/ops/cpu/simd/kernels_make.inc"
}  // namespace level_portable

const Kernels* kernels_portable() {
  static constexpr Kernels table = level_portable::make_kernels(CpuLevel::portable);
  return &table;
}
}  // namespace longhaul::cpu
