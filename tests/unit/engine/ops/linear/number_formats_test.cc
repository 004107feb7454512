// Every code of every format against a definition of its own in f64, and roundings against a search among all numbers.
#include "engine/ops/linear/number_formats.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/digest/philox.h"
#include "tests/support/seed.h"

using namespace longhaul;

namespace {

// As the tables of the papers have them, not as the code does.
struct Definition {
  NumberFormat format;
  int bits, exponent_bits, mantissa_bits, bias;
  double max, min_normal;
};
constexpr Definition definitions[] = {
    {NumberFormat::e5m2, 8, 5, 2, 15, 57344, 0x1p-14},
    {NumberFormat::e4m3, 8, 4, 3, 7, 448, 0x1p-6},
    {NumberFormat::e3m2, 6, 3, 2, 3, 28, 0x1p-2},
    {NumberFormat::e2m3, 6, 2, 3, 1, 7.5, 1},
    {NumberFormat::e2m1, 4, 2, 1, 1, 6, 1},
    {NumberFormat::int8, 8, 0, 6, 0, 127.0 / 64, 1},
};

double exact_value(const Definition& d, int code) {
  if (d.exponent_bits == 0) return (code < 128 ? code : code - 256) / 64.0;
  const int mantissas = 1 << d.mantissa_bits, exponents = 1 << d.exponent_bits;
  const double sign = code >= mantissas * exponents ? -1 : 1;
  const int exponent = code / mantissas % exponents, mantissa = code % mantissas;
  if (d.format == NumberFormat::e5m2 && exponent == 31) return mantissa == 0 ? sign * INFINITY : std::nan("");
  if (d.format == NumberFormat::e4m3 && exponent == 15 && mantissa == 7) return std::nan("");
  const double fraction = static_cast<double>(mantissa) / mantissas;
  return sign *
         (exponent == 0 ? fraction * std::pow(2.0, 1 - d.bias) : (1 + fraction) * std::pow(2.0, exponent - d.bias));
}

// The numbers from 0 up, in order; INT8 without -2, to which nothing is rounded.
std::vector<double> magnitudes(const Definition& d) {
  std::vector<double> all;
  for (int code = 0; code < 1 << (d.bits - 1); ++code)
    if (std::isfinite(exact_value(d, code))) all.push_back(exact_value(d, code));
  return all;
}

// The neighbour with the even code wins a tie; above the largest there is none.
double nearest(const std::vector<double>& numbers, double x) {
  if (std::abs(x) >= numbers.back()) return std::copysign(numbers.back(), x);
  std::size_t best = 0;
  for (std::size_t i = 1; i < numbers.size(); ++i) {
    const double d = std::abs(std::abs(x) - numbers[i]), before = std::abs(std::abs(x) - numbers[best]);
    if (d < before || (d == before && i % 2 == 0)) best = i;
  }
  return std::copysign(numbers[best], x);
}

}  // namespace

TEST_CASE("each code has the value of the format's definition and comes back from it") {
  for (const Definition& d : definitions) {
    CAPTURE(name_of(d.format));
    const NumberTraits t = traits_of(d.format);
    CHECK(t.bits == d.bits);
    CHECK(static_cast<double>(t.max) == d.max);
    CHECK(std::pow(2.0, t.exponent_min) == d.min_normal);
    CHECK(std::floor(std::log2(d.max)) == t.exponent_max);
    for (int code = 0; code < 1 << d.bits; ++code) {
      CAPTURE(code);
      const double exact = exact_value(d, code);
      const float value = decode(d.format, static_cast<std::uint8_t>(code));
      if (std::isnan(exact)) {
        CHECK(std::isnan(value));
        CHECK(std::isnan(decode(d.format, encode(d.format, value))));
        continue;
      }
      CHECK(static_cast<double>(value) == exact);
      CHECK(std::signbit(value) == std::signbit(exact));
      if (std::abs(exact) <= d.max) CHECK(static_cast<int>(encode(d.format, value)) == code);
    }
  }
}

TEST_CASE("rounding is to nearest, ties to even, and saturates: around every number and every tie") {
  for (const Definition& d : definitions) {
    CAPTURE(name_of(d.format));
    const std::vector<double> numbers = magnitudes(d);
    std::vector<float> tried = {0.0F, std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::max()};
    for (std::size_t i = 0; i < numbers.size(); ++i)
      for (const double at : {numbers[i], i + 1 < numbers.size() ? (numbers[i] + numbers[i + 1]) / 2 : 2 * d.max}) {
        const auto x = static_cast<float>(at);
        REQUIRE(static_cast<double>(x) == at);
        tried.insert(tried.end(), {x, std::nextafter(x, 1e30F), std::nextafter(x, 0.0F)});
      }
    const std::uint64_t seed = longhaul::testing::seed(20261124);
    CAPTURE(seed);
    PhiloxSequence random(seed, 3);
    for (int i = 0; i < 5000; ++i)
      tried.push_back(
          static_cast<float>(std::ldexp(random.next_uniform(), static_cast<int>(random.next_below(40)) - 22)));
    for (const float x : tried)
      for (const float signed_x : {x, -x}) {
        CAPTURE(signed_x);
        const double expected = nearest(numbers, static_cast<double>(signed_x));
        CHECK(static_cast<double>(round_to(d.format, signed_x)) == expected);
        CHECK(static_cast<double>(decode(d.format, encode(d.format, signed_x))) == expected);
      }
    for (const float sign : {1.0F, -1.0F})
      CHECK(static_cast<double>(round_to(d.format, sign * INFINITY)) == static_cast<double>(sign) * d.max);
    CHECK(std::isnan(round_to(d.format, NAN)));
    CHECK(std::signbit(round_to(d.format, -0.0F)));
    if (d.format == NumberFormat::e5m2 || d.format == NumberFormat::e4m3)
      CHECK(std::isnan(decode(d.format, encode(d.format, NAN))));
  }
}

TEST_CASE("E8M0 is a power of two, or NaN") {
  for (int code = 0; code < 255; ++code)
    CHECK(static_cast<double>(decode_e8m0(static_cast<std::uint8_t>(code))) == std::ldexp(1.0, code - 127));
  CHECK(std::isnan(decode_e8m0(255)));
}

TEST_CASE("a block's scale: the rule of OCP MX, and rounded up so that nothing saturates") {
  const std::uint64_t seed = longhaul::testing::seed(20261124);
  CAPTURE(seed);
  PhiloxSequence random(seed, 5);
  for (const Definition& d : definitions) {
    CAPTURE(name_of(d.format));
    std::vector<float> tried = {static_cast<float>(d.max),
                                std::nextafter(static_cast<float>(d.max), 1e30F),
                                1.0F,
                                3e38F,
                                1e-39F,
                                1e-45F,
                                static_cast<float>(std::ldexp(d.max, 40))};
    for (int i = 0; i < 2000; ++i)
      tried.push_back(
          static_cast<float>(std::ldexp(1 + random.next_uniform(), static_cast<int>(random.next_below(270)) - 148)));
    for (const float amax : tried) {
      CAPTURE(amax);
      const auto clamped = [](double exponent) { return std::min(127.0, std::max(-127.0, exponent)); };
      const double floor = clamped(std::floor(std::log2(static_cast<double>(amax))) - std::floor(std::log2(d.max)));
      CHECK(static_cast<double>(scale_code(d.format, ScaleRounding::floor, amax)) - 127 == floor);
      const double up = clamped(std::ceil(std::log2(static_cast<double>(amax) / d.max)));
      const double found = scale_code(d.format, ScaleRounding::up, amax) - 127.0;
      // log2 itself rounds; the bound is what counts.
      CHECK(std::abs(found - up) <= 1);
      CHECK(static_cast<double>(amax) <= d.max * std::ldexp(1.0, static_cast<int>(found)));
      if (found > -127) CHECK(static_cast<double>(amax) > d.max * std::ldexp(1.0, static_cast<int>(found) - 1));
    }
    CHECK(scale_code(d.format, ScaleRounding::up, 0.0F) == 0);
    CHECK(scale_code(d.format, ScaleRounding::up, INFINITY) == e8m0_nan);
    CHECK(scale_code(d.format, ScaleRounding::floor, NAN) == e8m0_nan);
  }
}

TEST_CASE("a tensor's scale takes its largest magnitude to the format's, less a margin") {
  CHECK(tensor_scale(NumberFormat::e4m3, 448.0F, 0) == 1.0F);
  CHECK(tensor_scale(NumberFormat::e4m3, 0.875F, 0) == 0x1p-9F);
  CHECK(tensor_scale(NumberFormat::e5m2, 57344.0F, 2) == 4.0F);
  CHECK(tensor_scale(NumberFormat::e4m3, 0.0F, 0) == 1.0F);
  CHECK(tensor_scale(NumberFormat::e5m2, 1e-45F, 0) == 1.0F);
  CHECK(std::isnan(tensor_scale(NumberFormat::e4m3, INFINITY, 0)));
}
