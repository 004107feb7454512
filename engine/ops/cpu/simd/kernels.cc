#include "engine/ops/cpu/simd/kernels.h"

#include <algorithm>
#include <atomic>

#include "engine/ops/cpu/simd/kernels_table.h"
#include "engine/ops/cpu_levels.h"

namespace longhaul::cpu {
namespace {

const Kernels* best_up_to(CpuLevel level) {
  if (level >= CpuLevel::avx512_bf16 && kernels_avx512_bf16() != nullptr && processor_has(CpuLevel::avx512_bf16)) {
    return kernels_avx512_bf16();
  }
  if (level >= CpuLevel::avx512 && kernels_avx512() != nullptr && processor_has(CpuLevel::avx512))
    return kernels_avx512();
  if (level >= CpuLevel::avx2 && kernels_avx2() != nullptr && processor_has(CpuLevel::avx2)) return kernels_avx2();
  return kernels_portable();
}

// Of the process, as oneDNN's is: contexts are made in many places, none of which should know of it.
std::atomic<CpuLevel> kernels_cap{CpuLevel::best};

}  // namespace

bool processor_has(CpuLevel level) {
#if defined(__x86_64__)
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
                                        best_up_to(CpuLevel::avx512), best_up_to(CpuLevel::avx512_bf16),
                                        best_up_to(CpuLevel::avx512_bf16)};
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
