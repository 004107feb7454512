// The packed product for any processor: 4 lanes, as SSE2 and NEON have; NEON has 32 registers, 24 of them are sums.
#include <cstdint>

#include "engine/ops/cpu/gemm/packed_tiles.h"

#define LH_LANES 4
#define LH_TURN 4
#if defined(__aarch64__)
#define LH_ROWS 8
#define LH_VECTORS 3
#define LH_LANE_OPERANDS 1
#define LH_NAME "neon"
#else
#define LH_ROWS 4
#define LH_VECTORS 2
#define LH_NAME "portable"
#endif

namespace longhaul::cpu {
namespace packed_portable {
using Index = std::int64_t;
#include "engine/ops/cpu/gemm/packed_tiles.inc"
}  // namespace packed_portable

const PackedTiles* packed_tiles_portable() {
  static constexpr PackedTiles tiles = packed_portable::make_tiles(LH_NAME, 256, 128);
  return &tiles;
}
}  // namespace longhaul::cpu
