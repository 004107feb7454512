#include "engine/tasks/commands/processor_info.h"

#include <algorithm>

#include "base/system/clock.h"
#include "base/text/text.h"
#include "engine/ops/cpu_levels.h"
#include "engine/ops/linear/gemm.h"

namespace longhaul {
namespace {

// Of the best of a few products, each of 4 million multiplications and additions.
double measured_gflops(const ComputeContext& context) {
  constexpr std::int64_t n = 128;
  Tensor a(DType::f32, {n * n}), c(DType::f32, {n * n});
  const SystemClock clock;
  std::int64_t best_ns = 0;
  for (int i = 0; i < 6; ++i) {
    const std::int64_t begin = clock.monotonic_ns();
    gemm(context, {.m = n, .n = n, .k = n}, a, a, c);
    const std::int64_t took = std::max<std::int64_t>(1, clock.monotonic_ns() - begin);
    best_ns = best_ns == 0 ? took : std::min(best_ns, took);
  }
  return 2.0 * static_cast<double>(n * n * n) / static_cast<double>(best_ns);
}

std::string kernels_text(const ProcessorFacts& f) {
  switch (f.level) {
    case CpuLevel::amx: return "AVX-512 with bf16, 16 numbers at a time, and attention's products by AMX tiles";
    case CpuLevel::avx512_bf16: return "AVX-512 with bf16, 16 numbers at a time";
    case CpuLevel::avx512: return "AVX-512, 16 numbers at a time";
    case CpuLevel::avx2: return "AVX2, 8 numbers at a time";
    case CpuLevel::portable:
    case CpuLevel::best: break;
  }
  if (!f.x86) return "portable, 4 numbers at a time (NEON)";
  return "portable, 4 numbers at a time, because there is no AVX2 that the engine may use";
}

// 6 operations for each parameter and token.
std::string slowness_text(const ProcessorFacts& f) {
  constexpr double parameters = 124e6, tokens = 1024;
  return format(
      "slow: one core multiplies at {:.1f} GFLOP/s (measured just now), so that a model of 124 M parameters trains on "
      "{:.0f} tokens in about {}; every processor since AVX2 (2013) is several times faster",
      f.portable_gflops, tokens, human_duration(6 * parameters * tokens / (f.portable_gflops * 1e9)));
}

}  // namespace

ProcessorFacts processor_facts() {
  ProcessorFacts facts;
  facts.level = cpu_levels_here().back();
  facts.processor = cpu_level_of_processor();
#if !defined(__x86_64__)
  facts.x86 = false;
#endif
  const ComputeContext context;
  facts.bf16_products_native = gemm_compiles(context, DType::bf16);
  if (facts.x86 && facts.level == CpuLevel::portable) facts.portable_gflops = measured_gflops(context);
  return facts;
}

std::string processor_text(const ProcessorFacts& f) {
  std::string text = format("operations: cpu, {}\nkernels: {}\nproducts in f32: {}\n", cpu_level_name(f.level),
                            kernels_text(f), f.x86 ? "oneDNN, with the same instructions" : "the engine's own code");
  if (f.bf16_products_native) {
    text += "products in bf16: native, up to twice as fast as f32 and half of its memory";
  } else {
    text +=
        "products in bf16: widened to f32, as this processor multiplies f32 only: half of f32's memory, none of its "
        "time saved";
  }
  if (f.processor > f.level)
    text += format(
        "\nunused: this processor has {}, and the process is held down (LONGHAUL_CPU_MAX) or was built without its "
        "kernels (LONGHAUL_CPU_LEVELS=here, as scripts/quickstart does; all has them)",
        cpu_level_name(f.processor));
  if (f.portable_gflops > 0) text += "\nspeed: " + slowness_text(f);
  return text;
}

}  // namespace longhaul
