#include "contracts/settings/stages/benchmark.h"

#include <algorithm>
#include <cstdlib>

#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr double matrix_elements_max = 1 << 28;  // of a matrix

}  // namespace

const FieldTable<BenchmarkSettings>& benchmark_fields() {
  using B = BenchmarkSettings;
  static const auto table =
      FieldTable<B>()
          .field("products", &B::products, {.help = "sizes of matrix products, as \"MxNxK\""})
          .field("precisions", &B::precisions, {.help = "of the products: bf16, f32"})
          .field("streams", &B::streams,
                 {.unit = "bytes",
                  .help = "that are read and written as far as memory allows",
                  .min = 1024,
                  .max = 1LL << 34})
          .field("messages", &B::messages,
                 {.unit = "bytes",
                  .help = "of a rank, of each collective and between two ranks",
                  .min = 4,
                  .max = 1LL << 31})
          .field("seconds", &B::seconds,
                 {.unit = "s", .help = "that each of them is repeated for", .min = 0.001, .max = 60});
  return table;
}

Result<ProductSize> product_size_of(const std::string& text) {
  const std::vector<std::string> parts = split(text, 'x');
  ProductSize size;
  bool right = parts.size() == 3;
  for (std::size_t i = 0; right && i < 3; ++i) {
    const bool digits = !parts[i].empty() && parts[i].size() < 10 &&
                        std::all_of(parts[i].begin(), parts[i].end(), [](char c) { return c >= '0' && c <= '9'; });
    (i == 0 ? size.m : i == 1 ? size.n : size.k) = digits ? std::atoll(parts[i].c_str()) : 0;
    right = digits;
  }
  if (!right || size.m < 1 || size.n < 1 || size.k < 1)
    return make_error(ErrorCode::invalid_input, "'" + text + "' is no size of a product",
                      "write MxNxK, for example \"1024x512x512\"");
  const auto too_large = [](std::int64_t a, std::int64_t b) {
    return static_cast<double>(a) * static_cast<double>(b) > matrix_elements_max;
  };
  if (too_large(size.m, size.k) || too_large(size.k, size.n) || too_large(size.m, size.n))
    return make_error(ErrorCode::invalid_input, "the product " + text + " is too large to be timed",
                      "use matrices of at most 268435456 numbers");
  return size;
}

Status check_benchmark(const BenchmarkSettings& settings) {
  for (const std::string& product : settings.products) LH_CHECK(product_size_of(product));
  for (const std::string& precision : settings.precisions)
    if (precision != "bf16" && precision != "f32")
      return make_error(ErrorCode::invalid_input, "there is no precision '" + precision + "'", "use bf16 or f32");
  return {};
}

}  // namespace longhaul
