// Settings of the stage kind `benchmark`: what its ranks time, all of them at once as a training has them.
#pragma once

#include "contracts/schema/field_table.h"

namespace longhaul {

struct BenchmarkSettings {
  std::vector<std::string> products = {"256x256x256", "1024x512x512", "1024x1024x1024"};  // "MxNxK"
  std::vector<std::string> precisions = {"bf16", "f32"};                                  // of products
  std::vector<std::int64_t> streams = {64 << 20};                                         // bytes that are copied
  std::vector<std::int64_t> messages = {1 << 10, 64 << 10, 1 << 20, 8 << 20};             // bytes
  double seconds = 0.2;                                                                   // of each of these
};
const FieldTable<BenchmarkSettings>& benchmark_fields();

struct ProductSize {
  std::int64_t m = 0, n = 0, k = 0;
};
// invalid_input: a text that is not "MxNxK" with positive numbers, or a product too large to time.
Result<ProductSize> product_size_of(const std::string& text);
// What the fields' own bounds cannot say.
Status check_benchmark(const BenchmarkSettings& settings);

}  // namespace longhaul
