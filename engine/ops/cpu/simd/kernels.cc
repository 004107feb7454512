#include "engine/ops/cpu/simd/kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <atomic>

#include "engine/ops/cpu/simd/kernels_table.h"
#include "engine/ops/cpu_levels.h"

namespace longhaul::cpu {
namespace {

const Kernels* best_up_to(CpuLevel level) {
  if (level >= CpuLevel::amx && kernels_amx() != nullptr && processor_has(CpuLevel::amx)) return kernels_amx();
  if (level >= CpuLevel::avx512_bf16 && kernels_avx512_bf16() != nullptr && processor_has(CpuLevel::avx512_bf16)) {
    return kernels_avx512_bf16();
  }
  if (level >= CpuLevel::avx512 && kernels_avx512() != nullptr && processor_has(CpuLevel::avx512))
    return kernels_avx512();
  if (level >= CpuLevel::avx2 && kernels_avx2() != nullptr && processor_has(CpuLevel::avx2)) return kernels_avx2();
  return kernels_portable();
}

#if defined(__x86_64__)
// Multiplies tiles of bf16 (CPUID leaf 7).
bool processor_has_amx() {
  constexpr unsigned kBf16 = 1U << 22, kTiles = 1U << 24;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kBf16) != 0 && (d & kTiles) != 0;
}
// Linux keeps the 8 KiB of the tiles for processes that have asked for it (arch_prctl, since 5.16).
bool system_gives_tiles() {
  constexpr long kAskForState = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  static const bool given = syscall(SYS_arch_prctl, kAskForState, kTileData) == 0;
  return given;
}
#endif

// Of the process, as oneDNN's is: contexts are made in many places, none of which should know of it.
std::atomic<CpuLevel> kernels_cap{CpuLevel::best};

}  // namespace

bool processor_has(CpuLevel level) {
#if defined(__x86_64__)
  if (level == CpuLevel::amx)
    return processor_has(CpuLevel::avx512_bf16) && processor_has_amx() && system_gives_tiles();
  if (level == CpuLevel::avx512_bf16) return processor_has(CpuLevel::avx512) && __builtin_cpu_supports("avx512bf16");
  if (level == CpuLevel::avx512) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("bmi2");
  }
  if (level == CpuLevel::avx2) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  }
#endif
  return level == CpuLevel::portable;
}

void cap_kernels(CpuLevel level) {
  kernels_cap = level;
}

const Kernels& kernels(const ComputeContext& context) {
  static const Kernels* const best[] = {best_up_to(CpuLevel::portable), best_up_to(CpuLevel::avx2),
                                        best_up_to(CpuLevel::avx512),   best_up_to(CpuLevel::avx512_bf16),
                                        best_up_to(CpuLevel::amx),      best_up_to(CpuLevel::best)};
  const CpuLevel level = std::min(context.cpu_level(), kernels_cap.load(std::memory_order_relaxed));
  return *best[static_cast<int>(level)];
}

const char* kernels_name(const ComputeContext& context) {
  return cpu_level_name(kernels(context).level);
}

// The larger of what the f32 and the bf16 kernels lay out.
Index attention_forward_scratch(const AttentionArgs& a) {
  return 2 * kQueryTile * a.head_dim_padded + 2 * kQueryTile * kKeyTile + 2 * kQueryTile;
}

Index attention_backward_scratch(const AttentionArgs& a) {
  const Index kv_padded = (a.kv_seq + kKeyTile - 1) / kKeyTile * kKeyTile;
  const Index seq_padded = (a.seq + kQueryTile - 1) / kQueryTile * kQueryTile;
  return (5 * kv_padded + 3 * seq_padded) * a.head_dim_padded + seq_padded + 4 * kQueryTile * kKeyTile;
}

}  // namespace longhaul::cpu
