#include "engine/ops/cpu_levels.h"

#include <dnnl.hpp>

#include "base/text/text.h"
#include "engine/ops/cpu/simd/kernels.h"

namespace longhaul {
namespace {

constexpr CpuLevel kNamed[] = {CpuLevel::portable, CpuLevel::avx2, CpuLevel::avx512, CpuLevel::avx512_bf16,
                               CpuLevel::amx};

#if defined(__x86_64__)
dnnl::cpu_isa isa_of(CpuLevel level) {
  switch (level) {
    case CpuLevel::portable: return dnnl::cpu_isa::sse41;
    case CpuLevel::avx2: return dnnl::cpu_isa::avx2;
    case CpuLevel::avx512: return dnnl::cpu_isa::avx512_core;
    case CpuLevel::avx512_bf16: return dnnl::cpu_isa::avx512_core_bf16;
    case CpuLevel::amx: return dnnl::cpu_isa::avx512_core_amx;
    case CpuLevel::best: break;
  }
  return dnnl::cpu_isa::all;
}
bool cap_onednn(CpuLevel level) {
  return dnnl::set_max_cpu_isa(isa_of(level)) == dnnl::status::success;
}
#else
bool cap_onednn(CpuLevel) {
  return true;  // has no other instruction sets to choose from that are named here
}
#endif

}  // namespace

const char* cpu_level_name(CpuLevel level) {
  switch (level) {
    case CpuLevel::portable: return "portable";
    case CpuLevel::avx2: return "avx2";
    case CpuLevel::avx512: return "avx512";
    case CpuLevel::avx512_bf16: return "avx512_bf16";
    case CpuLevel::amx: return "amx";
    case CpuLevel::best: break;
  }
  return "best";
}

Result<CpuLevel> cpu_level_named(std::string_view name) {
  for (const CpuLevel level : kNamed)
    if (name == cpu_level_name(level)) return level;
  return make_error(ErrorCode::invalid_input, format("no instruction set is called '{}'", name),
                    "portable, avx2, avx512, avx512_bf16 or amx");
}

CpuLevel cpu_level_of_processor() {
  CpuLevel best = CpuLevel::portable;
  for (const CpuLevel level : kNamed)
    if (cpu::processor_has(level)) best = level;
  return best;
}

std::vector<CpuLevel> cpu_levels_here() {
  std::vector<CpuLevel> levels;
  for (const CpuLevel level : kNamed)
    if (cpu::kernels(ComputeContext(1, level)).level == level) levels.push_back(level);
  return levels;
}

Status cap_cpu_level(std::string_view name) {
  if (name.empty()) return {};
  LH_TRY(const CpuLevel level, cpu_level_named(name));
  if (!cap_onednn(level))
    return make_error(ErrorCode::conflict, format("oneDNN cannot be held down to {} any more: it has run", name),
                      "set the cap before the first operation");
  cpu::cap_kernels(level);
  return {};
}

}  // namespace longhaul
