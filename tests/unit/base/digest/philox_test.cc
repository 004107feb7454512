#include "base/digest/philox.h"

#include <doctest/doctest.h>

#include <set>

namespace longhaul {

TEST_CASE("philox4x32-10 gives the known answers of its authors") {
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) == PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
        PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("a number belongs to its index, not to the order of calls") {
  const Philox philox{42, 7};
  const float late = philox.uniform(1'000'000);
  (void)philox.uniform(3);
  CHECK(philox.uniform(1'000'000) == late);
  CHECK(Philox{42, 8}.u32(5) != philox.u32(5));
  CHECK(Philox{43, 7}.u32(5) != philox.u32(5));
  PhiloxSequence a(1, 2);
  const Philox b{1, 2};
  for (std::uint64_t i = 0; i < 10; ++i) CHECK(a.next_u64() == b.u64(i));
}

TEST_CASE("uniform numbers stay in [0, 1) and have the right mean") {
  const Philox philox{9, 0};
  double sum = 0;
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    const float u = philox.uniform(i);
    const double d = philox.uniform_double(i);
    if (!(u >= 0 && u < 1 && d >= 0 && d < 1)) FAIL("out of range at " << i);
    sum += d;
  }
  CHECK(sum / 100'000 == doctest::Approx(0.5).epsilon(0.01));
}

TEST_CASE("normal numbers have the moments of a normal distribution") {
  const Philox philox{11, 3};
  constexpr int n = 200'000;
  double mean = 0, square = 0, fourth = 0, lag = 0;
  for (int i = 0; i < n; ++i) {
    const double x = philox.normal(static_cast<std::uint64_t>(i));
    mean += x / n;
    square += x * x / n;
    fourth += x * x * x * x / n;
    lag += x * philox.normal(static_cast<std::uint64_t>(i) + 1) / n;
  }
  CHECK(std::abs(mean) < 0.01);
  CHECK(square == doctest::Approx(1.0).epsilon(0.02));
  CHECK(fourth == doctest::Approx(3.0).epsilon(0.05));
  CHECK(std::abs(lag) < 0.01);
}

TEST_CASE("next_below reaches every value and no other") {
  PhiloxSequence random(5);
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(random.next_below(7));
  CHECK(seen == std::set<std::uint64_t>{0, 1, 2, 3, 4, 5, 6});
}

}  // namespace longhaul
