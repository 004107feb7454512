// The benchmark of decode (tests/gpu/bench/bench_generation.h) on a tiny model and the emulated GPU: what it counts,
// not how fast that is.
#ifndef __SANITIZE_ADDRESS__  // which does not know the stacks of the emulation's fibers
#include "tests/gpu/bench/bench_generation.h"

#include <doctest/doctest.h>

#include "engine/model/inference/cache/kv_cache.h"
#include "tests/support/emulated_gpu/test_gpu.h"
#include "tests/unit/engine/model/reference_model.h"

using namespace longhaul;

TEST_CASE("the benchmark of decode counts what a token reads, with and without graphs") {
  const std::shared_ptr<Gpu> gpu = testing::open_test_gpu();
  const gpu_bench::DecodeBench bench{"a tiny model", test::tiny_shape(false), 9, 2, 0.5};
  const std::vector<gpu_bench::BenchEntry> entries = gpu_bench::measure_decode(*gpu, bench);
  REQUIRE(entries.size() == 2);
  const ModelShape& s = bench.shape;
  const auto read = static_cast<double>(2 * (s.parameter_count() - (s.vocab_size - 1) * s.hidden_size) +
                                        KvCache::bytes_for(s, 10, DType::bf16));
  for (const gpu_bench::BenchEntry& entry : entries) CHECK(entry.bytes == read);
  CHECK(entries[0].bar == 0);
  CHECK(entries[1].bar == 0.5);
  CHECK(entries[0].name.find("no graphs") != std::string::npos);
}
#endif
