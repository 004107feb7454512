// The packed product for AVX2 and FMA: 12 of 16 registers are sums.
#include <cstdint>

#include "engine/ops/cpu/gemm/packed_tiles.h"

#if defined(__x86_64__) && !defined(LONGHAUL_LEAVE_OUT_LEVEL)
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,bmi2")
#define LH_LANES 8
#define LH_ROWS 6
#define LH_VECTORS 2
#define LH_TURN 8

namespace longhaul::cpu {
namespace packed_avx2 {
using Index = std::int64_t;
#include "engine/ops/cpu/gemm/packed_tiles.inc"
}  // namespace packed_avx2

const PackedTiles* packed_tiles_avx2() {
  static constexpr PackedTiles tiles = packed_avx2::make_tiles("avx2", 256, 144);
  return &tiles;
}
}  // namespace longhaul::cpu
#pragma GCC pop_options
#else
namespace longhaul::cpu {
const PackedTiles* packed_tiles_avx2() {
  return nullptr;
}
}  // namespace longhaul::cpu
#endif
