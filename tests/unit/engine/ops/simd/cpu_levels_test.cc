#include "engine/ops/cpu_levels.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>

#include "engine/core/tensor/tensor.h"
#include "engine/ops/cpu/simd/kernels.h"
#include "engine/ops/linear/gemm.h"

using namespace longhaul;

TEST_CASE("instruction sets have names, and others are refused by name") {
  for (const CpuLevel level :
       {CpuLevel::portable, CpuLevel::avx2, CpuLevel::avx512, CpuLevel::avx512_bf16, CpuLevel::amx}) {
    const auto found = cpu_level_named(cpu_level_name(level));
    REQUIRE(found.ok());
    CHECK(*found == level);
  }
  for (const char* wrong : {"AVX2", "avx", "best", "neon"}) {
    const Status refused = cap_cpu_level(wrong);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::invalid_input);
    CHECK(refused.error().message().find(wrong) != std::string::npos);
    CHECK(refused.error().message().find("avx512_bf16 or amx") != std::string::npos);
  }
  CHECK(cap_cpu_level("").ok());
}

TEST_CASE("the levels of this process begin with portable, and best is the last") {
  const std::vector<CpuLevel> here = cpu_levels_here();
  REQUIRE_FALSE(here.empty());
  CHECK(here.front() == CpuLevel::portable);
  CHECK(std::is_sorted(here.begin(), here.end()));
  CHECK(cpu::kernels(ComputeContext()).level == here.back());
  CHECK(cpu::kernels(ComputeContext(1, CpuLevel::portable)).level == CpuLevel::portable);
}

// Operations asked for on a level that the processor lacks run on what it has. So that nobody takes them for tried, the
// summary counts these cases as skipped, with the level's name.
#if defined(__x86_64__)
namespace {
void is_tried_here(CpuLevel level) {
  const char* cap = std::getenv("LONGHAUL_CPU_MAX");
  if (cap != nullptr && *cap != '\0') return;  // the usual run says it
  const std::vector<CpuLevel> here = cpu_levels_here();
  if (std::find(here.begin(), here.end(), level) == here.end()) {
    MESSAGE("skipped: this processor has no level " << std::string(cpu_level_name(level)));
    return;
  }
  CHECK(cpu::kernels(ComputeContext(1, level)).level == level);
}
}  // namespace
TEST_CASE("operations are tried with AVX2") {
  is_tried_here(CpuLevel::avx2);
}
TEST_CASE("operations are tried with AVX-512") {
  is_tried_here(CpuLevel::avx512);
}
TEST_CASE("operations are tried with AVX-512 and its bf16") {
  is_tried_here(CpuLevel::avx512_bf16);
}
TEST_CASE("operations are tried with AMX") {
  is_tried_here(CpuLevel::amx);
}
#endif

// unit_engine_ops_avx2 and its like (tests/CMakeLists.txt) set the cap before the first test.
TEST_CASE("a capped process runs nothing above its cap") {
  const char* cap = std::getenv("LONGHAUL_CPU_MAX");
  if (cap == nullptr || *cap == '\0') return;
  const auto level = cpu_level_named(cap);
  REQUIRE(level.ok());
  CHECK(cpu_levels_here().back() <= *level);
  CHECK(cpu::kernels(ComputeContext(1, CpuLevel::amx)).level <= *level);
  // oneDNN generates a product for each case from AVX-512 on, of bf16 from AVX-512 with bf16 on.
  if (*level < CpuLevel::avx512) CHECK_FALSE(gemm_compiles(ComputeContext(), DType::f32));
  if (*level < CpuLevel::avx512_bf16) CHECK_FALSE(gemm_compiles(ComputeContext(), DType::bf16));
}

TEST_CASE("a cap that comes after oneDNN has looked at the processor is refused and changes nothing") {
  constexpr std::int64_t n = 32;
  Tensor a(DType::f32, {n * n}), c(DType::f32, {n * n});
  gemm(ComputeContext(), {.m = n, .n = n, .k = n}, a, a, c);
#if defined(__x86_64__)  // elsewhere oneDNN knows none of these levels
  const std::vector<CpuLevel> before = cpu_levels_here();
  const Status late = cap_cpu_level("portable");
  REQUIRE_FALSE(late.ok());
  CHECK(late.error().code == ErrorCode::conflict);
  CHECK(cpu_levels_here() == before);
#endif
}
