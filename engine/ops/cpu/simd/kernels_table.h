// The tables that were compiled in; nullptr where the machine's family does not have them, or where a build for one
// machine leaves them out (LONGHAUL_CPU_LEVELS in engine/CMakeLists.txt).
#pragma once

#include "engine/ops/cpu/simd/kernels.h"

namespace longhaul::cpu {
const Kernels* kernels_portable();
const Kernels* kernels_avx2();
const Kernels* kernels_avx512();
const Kernels* kernels_avx512_bf16();
const Kernels* kernels_amx();
}  // namespace longhaul::cpu
