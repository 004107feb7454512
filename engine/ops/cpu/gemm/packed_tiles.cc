#include "engine/ops/cpu/gemm/packed_tiles.h"

#include "engine/ops/cpu/simd/kernels.h"

namespace longhaul::cpu {

const PackedTiles& packed_tiles(const ComputeContext& context) {
  const CpuLevel level = kernels(context).level;  // one that this processor has
  if (level >= CpuLevel::avx512 && packed_tiles_avx512() != nullptr) return *packed_tiles_avx512();
  if (level >= CpuLevel::avx2 && packed_tiles_avx2() != nullptr) return *packed_tiles_avx2();
  return *packed_tiles_portable();
}

}  // namespace longhaul::cpu
