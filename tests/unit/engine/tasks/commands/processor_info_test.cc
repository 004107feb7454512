#include "engine/tasks/commands/processor_info.h"

#include <doctest/doctest.h>

#include "engine/ops/cpu_levels.h"

using namespace longhaul;

TEST_CASE("what the processor computes with is said in words, and what bf16 costs") {
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  const std::string native = processor_text({CpuLevel::avx512_bf16, true, true});
  CHECK(native.starts_with("operations: cpu, avx512_bf16\n"));
  CHECK(has(native, "bf16: native"));
  CHECK_FALSE(has(native, "slow"));
  const std::string tiles = processor_text({CpuLevel::amx, true, true, CpuLevel::amx});
  CHECK(tiles.starts_with("operations: cpu, amx\n"));
  CHECK(has(tiles, "attention's products by AMX tiles"));
  CHECK_FALSE(has(tiles, "unused"));
  CHECK(has(processor_text({CpuLevel::avx512, true, false}), "bf16: widened"));
  const std::string avx2 = processor_text({CpuLevel::avx2, true, false});
  CHECK(has(avx2, "bf16: widened to f32"));
  CHECK(has(avx2, "AVX2, 8 numbers"));
  const std::string old = processor_text({CpuLevel::portable, true, false, CpuLevel::portable, 2.0});
  CHECK(has(old, "no AVX2"));
  CHECK(has(old, "2.0 GFLOP/s"));
  CHECK(has(old, "6m"));  // 6 x 124 M x 1,024 / 2 G = 381 s
  const std::string arm = processor_text({CpuLevel::portable, false, false});
  CHECK(has(arm, "NEON"));
  CHECK_FALSE(has(arm, "AVX2"));
  CHECK_FALSE(has(avx2, "unused"));
  const std::string held = processor_text({CpuLevel::avx2, true, false, CpuLevel::avx512});
  CHECK(has(held, "unused: this processor has avx512"));
}

TEST_CASE("the facts are those of this process") {
  const ProcessorFacts facts = processor_facts();
  CHECK(facts.level == cpu_levels_here().back());
  CHECK(facts.processor >= facts.level);
  CHECK((facts.portable_gflops > 0) == (facts.x86 && facts.level == CpuLevel::portable));
}
