// The packed product for AVX-512: 24 of 32 registers are sums.
#include <cstdint>

#include "engine/ops/cpu/gemm/packed_tiles.h"

#if defined(__x86_64__) && !defined(LONGHAUL_LEAVE_OUT_LEVEL)
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c,bmi2")
#define LH_LANES 16
#define LH_ROWS 12
#define LH_VECTORS 2
#define LH_TURN 8

namespace longhaul::cpu {
namespace packed_avx512 {
using Index = std::int64_t;
#include "engine/ops/cpu/gemm/packed_tiles.inc"
}  // namespace packed_avx512

const PackedTiles* packed_tiles_avx512() {
  static constexpr PackedTiles tiles = packed_avx512::make_tiles("avx512", 256, 192);
  return &tiles;
}
}  // namespace longhaul::cpu
#pragma GCC pop_options
#else
namespace longhaul::cpu {
const PackedTiles* packed_tiles_avx512() {
  return nullptr;
}
}  // namespace longhaul::cpu
#endif
