#include "engine/ops/loss/digest.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <random>

#include "engine/core/tensor/word_digest.h"
#include "tests/support/seed.h"
#include "tests/unit/engine/ops/op_check.h"

namespace longhaul {

using namespace op_check;

namespace {

// The formula once more, element by element.
std::uint64_t plain_digest(std::span<const float> x) {
  const auto mixed = [](std::uint64_t z) {
    z ^= z >> 30, z *= 0xBF58476D1CE4E5B9ULL;
    z ^= z >> 27, z *= 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  };
  std::uint64_t sum = mixed(4 * x.size()), key = 0;
  for (std::size_t i = 0; i < x.size(); i += 2) {
    std::uint64_t word = std::bit_cast<std::uint32_t>(x[i]);
    if (i + 1 < x.size()) word += static_cast<std::uint64_t>(std::bit_cast<std::uint32_t>(x[i + 1])) << 32;
    sum += mixed(word ^ (key += 0x9E3779B97F4A7C15ULL));
  }
  return sum;
}

std::vector<float> drawn_values(std::size_t n, std::mt19937_64& random) {
  std::vector<float> x(n);
  for (float& value : x) value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));  // NaN as well
  return x;
}

std::vector<std::uint64_t> digests(const ComputeContext& context, std::span<const float> x, std::size_t parts) {
  std::vector<std::uint64_t> out(parts);
  digest_parts(context, x, out);
  return out;
}

}  // namespace

TEST_CASE("digests of parts are those of the formula on every backend, wherever an array begins") {
  const std::uint64_t seed = testing::seed(11);
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (const auto& [n, on] : with_backends({0, 1, 2, 3, 7, 1003, 65'540, 140'001})) {
    const OpContext context(2, on);
    CAPTURE(n);
    const std::vector<float> x = drawn_values(static_cast<std::size_t>(n), random);
    for (const std::size_t parts : {1U, 2U, 3U, 8U}) {
      CAPTURE(parts);
      const std::vector<std::uint64_t> got = digests(context, x, parts);
      for (std::size_t p = 0; p < parts; ++p) {
        const std::size_t begin = x.size() * p / parts, end = x.size() * (p + 1) / parts;
        CHECK(got[p] == plain_digest(std::span(x).subspan(begin, end - begin)));
        CHECK(got[p] == word_digest(std::as_bytes(std::span(x).subspan(begin, end - begin))));
      }
    }
  }
}

TEST_CASE("a flipped bit, swapped elements, shifted rows and a shorter array change a digest, on every backend") {
  const std::uint64_t seed = testing::seed(12);
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const std::size_t n = 96, row = 12;
  for (const Backend& on : kBackends) {
    const OpContext context(2, on);
    std::vector<float> x = drawn_values(n, random);
    const std::uint64_t as_it_was = digests(context, x, 1)[0];
    int unseen = 0;
    const auto look = [&](const std::vector<float>& y) { unseen += digests(context, y, 1)[0] == as_it_was; };
    for (std::size_t bit = 0; bit < n * 32; bit += on.gpu ? 13 : 1) {
      std::vector<float> y = x;
      reinterpret_cast<unsigned char*>(y.data())[bit / 8] ^= static_cast<unsigned char>(1U << (bit % 8));
      look(y);
    }
    for (std::size_t i = 0; i + 1 < n; ++i) {
      std::vector<float> y = x;
      std::swap(y[i], y[(i + 1 + random() % (n - 1)) % n]);
      if (!std::ranges::equal(std::as_bytes(std::span(x)), std::as_bytes(std::span(y)))) look(y);
    }
    for (std::size_t by = row; by < n; by += row) {
      std::vector<float> y = x;
      std::ranges::rotate(y, y.begin() + static_cast<std::ptrdiff_t>(by));
      look(y);
    }
    std::vector<float> zeros(n, 0.0F);
    CHECK(digests(context, zeros, 1)[0] != digests(context, std::span(zeros).first(n - 1), 1)[0]);
    look(std::vector<float>(x.begin(), x.end() - 1));
    CHECK(unseen == 0);
  }
}

}  // namespace longhaul
