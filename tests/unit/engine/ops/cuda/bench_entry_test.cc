#include "tests/gpu/bench/bench_entry.h"

#include <doctest/doctest.h>

using namespace longhaul::gpu_bench;

TEST_CASE("a share is of the ceiling that binds") {
  const Ceilings best{1000, 1e6};
  CHECK(BenchEntry{"copy", 2, 1000, 0, 0}.share(best) == doctest::Approx(0.5));
  const BenchEntry product{"product", 4, 1000, 2e6, 0};  // 1 s of bytes, 2 s of operations, done in 4
  CHECK(product.share(best) == doctest::Approx(0.5));
  CHECK(product.bound_by_flops(best));
  CHECK_FALSE(BenchEntry{"few", 4, 4000, 2e6, 0}.bound_by_flops(best));
  CHECK(BenchEntry{"never", 0, 1, 1, 0}.share(best) == 0);
}

TEST_CASE("operations are counted from shapes") {
  CHECK(gemm_flops(2, 3, 4) == 48);
  // Half of 2 products of [4, 4] by 8, for 3 heads.
  CHECK(causal_attention_flops(1, 4, 3, 8) == 0.5 * 3 * 2 * gemm_flops(4, 4, 8));
}
