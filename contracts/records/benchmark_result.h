// benchmark.json: what a `benchmark` stage has timed. Written by the engine's first rank, read where constants are
// fitted to it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error/result.h"
#include "base/value/value.h"

namespace longhaul {

inline constexpr const char* benchmark_file_name = "benchmark.json";

// One thing that was timed: a `product` (m, n, k in `precision`), a `stream` (bytes read plus bytes written), an
// `all_reduce`, `all_gather` or `send` (bytes: of a rank before the first, of the whole after the second, of the
// message).
struct BenchmarkResult {
  std::string what, precision;
  std::int64_t m = 0, n = 0, k = 0, bytes = 0;
  double seconds = 0;  // the median of the slowest rank
  int repeats = 0;
  std::string name() const;  // "product bf16 1024x512x512", "all_reduce 1.0 MiB"
};

struct BenchmarkResults {
  static constexpr int format = 1;
  int ranks = 1;
  std::vector<BenchmarkResult> results;
};

Value benchmark_to_value(const BenchmarkResults& results);
// corrupt: another format, or a result without a name or a positive finite time.
Result<BenchmarkResults> benchmark_from_value(const Value& value, const std::string& path);
Result<BenchmarkResults> read_benchmark(const std::string& folder);

}  // namespace longhaul
