// What a benchmark stage is given, and the file that it leaves.
#include "contracts/settings/stages/benchmark.h"

#include <doctest/doctest.h>

#include "base/value/json.h"
#include "contracts/records/benchmark_result.h"
#include "contracts/tasks/stage_kinds.h"

namespace longhaul {
namespace {

namespace benchmark_contract_test {

TEST_CASE("a product's size is three numbers, and anything else is refused with what was written") {
  const ProductSize size = product_size_of("128x4096x768").value();
  CHECK(size.m == 128);
  CHECK(size.n == 4096);
  CHECK(size.k == 768);
  for (const char* wrong :
       {"", "x", "1x2", "1x2x3x4", "0x2x3", "ax2x3", "1x-2x3", "1x2x3 ", "99999999999x1x1", "1000000x1000000x2"}) {
    CAPTURE(wrong);
    const auto refused = product_size_of(wrong);
    CHECK(!refused.ok());
    CHECK(refused.error().message().find(wrong) != std::string::npos);
  }
}

TEST_CASE("settings that cannot be timed are reported where the stage stands") {
  for (const char* wrong :
       {R"({"products": ["12x"]})", R"({"precisions": ["f64"]})", R"({"seconds": 0})", R"({"messages": [1]})"}) {
    CAPTURE(wrong);
    Diagnostics problems;
    (void)find_stage_kind("benchmark")->resolve(*parse_json(wrong), "stage.b", {}, problems);
    CHECK(problems.size() == 1);
  }
}

TEST_CASE("results come back from their file; damaged ones are corrupt") {
  BenchmarkResults results;
  results.ranks = 2;
  results.results = {{"product", "bf16", 128, 256, 64, 0, 1.5e-5, 100}, {"all_reduce", "", 0, 0, 0, 4096, 2e-5, 50}};
  const Value written = benchmark_to_value(results);
  const BenchmarkResults again = benchmark_from_value(written, "b.json").value();
  CHECK(benchmark_to_value(again) == written);
  CHECK(again.results[0].name() == "product bf16 128x256x64");
  CHECK(again.results[1].name() == "all_reduce 4.0 KiB");
  for (const char* key : {"format", "ranks", "results"}) {
    Value damaged = written;
    damaged.erase(key);
    CHECK(benchmark_from_value(damaged, "b.json").error().code == ErrorCode::corrupt);
  }
  for (const double seconds : {0.0, -1.0}) {
    BenchmarkResults bad = results;
    bad.results[1].seconds = seconds;
    CHECK(benchmark_from_value(benchmark_to_value(bad), "b.json").error().code == ErrorCode::corrupt);
  }
  CHECK(benchmark_from_value(Value(), "b.json").error().code == ErrorCode::corrupt);
}

}  // namespace benchmark_contract_test
}  // namespace
}  // namespace longhaul
