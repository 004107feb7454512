#include "engine/ops/linear/stochastic_rounding.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/ops/pointwise/adamw.h"
#include "tests/unit/engine/ops/op_check.h"

using namespace longhaul;
using namespace longhaul::op_check;

namespace {

constexpr CpuLevel kRoundingLevels[] = {CpuLevel::portable, CpuLevel::avx2, CpuLevel::avx512, CpuLevel::avx512_bf16};

Tensor filled_bf16(Index n, float value) {
  Tensor tensor(DType::bf16, {n});
  for (bf16& x : tensor.span<bf16>()) x = bf16(value);
  return tensor;
}

}  // namespace

TEST_CASE("over all draws the mean of what is rounded stochastically is the value itself") {
  constexpr std::uint64_t seed = 20;
  CAPTURE(seed);
  PhiloxSequence draw(seed);
  for (int i = 0; i < 50; ++i) {
    const auto value = static_cast<float>(std::exp(40.0 * draw.next_uniform() - 20.0) * (i % 2 == 0 ? 1 : -1));
    double sum = 0.0;
    for (std::uint32_t bits = 0; bits < 65536; ++bits)
      sum += static_cast<double>(static_cast<float>(round_stochastically(value, bits)));
    CHECK(sum / 65536.0 == doctest::Approx(static_cast<double>(value)).epsilon(1e-12));
  }
  constexpr float infinite = std::numeric_limits<float>::infinity();
  CHECK(static_cast<float>(round_stochastically(infinite, 65535)) == infinite);
  CHECK(static_cast<float>(round_stochastically(-infinite, 65535)) == -infinite);
  CHECK(std::isnan(static_cast<float>(round_stochastically(std::bit_cast<float>(0x7FFFFFFFU), 65535))));
  CHECK(round_stochastically(0.0F, 65535) == bf16(0.0F));
  CHECK(round_stochastically(1.5F, 65535) == bf16(1.5F));  // bf16 has it: nothing to choose
}

TEST_CASE("the draws of 128 neighbours are the halves of sixteen blocks, each used once") {
  const Philox random{5, 6};
  std::vector<std::uint32_t> draws, expected;
  for (std::int64_t i = 1280; i < 1408; ++i) draws.push_back(rounding_draw(random, i));
  for (std::uint64_t block = 160; block < 176; ++block)
    for (const std::uint32_t word : random.block(block)) expected.insert(expected.end(), {word & 0xFFFF, word >> 16});
  std::ranges::sort(draws);
  std::ranges::sort(expected);
  CHECK(draws == expected);
  std::vector<bool> seen(65536);
  for (std::uint32_t draw = 0; draw < 65536; ++draw) seen[draw_of_second(draw)] = true;
  CHECK(std::ranges::count(seen, true) == 65536);
}

// With beta1 = beta2 = 0 the moments are g and g^2, exactly.
TEST_CASE("every instruction set rounds moments with the bits of their element of the global tensor") {
  const Index n = 1003;
  const Values g = random_values(DType::f32, n, 4);
  AdamWStep step;
  step.beta1 = step.beta2 = 0.0;
  AdamWRounding rounding{{7, 8}, {1000, 37, 500}, 11};  // a box of rows of 37 of 500, from its element 11 on
  const std::int64_t huge = std::int64_t{1} << 33;      // counters beyond 32 bits
  for (const std::int64_t origin : {std::int64_t{1000}, huge}) {
    rounding.order.origin = origin;
    for (const CpuLevel level : kRoundingLevels) {
      CAPTURE(static_cast<int>(level));
      const ComputeContext context(2, level);
      Values p = random_values(DType::f32, n, 1);
      Tensor m(DType::bf16, {n}), v(DType::bf16, {n});
      adamw_update(context, step, p.tensor.span<float>(), m, v, g.tensor.span<float>(), {}, &rounding);
      int wrong = 0;
      for (Index i = 0; i < n; ++i) {
        const auto at = static_cast<std::size_t>(i);
        const float value = g.tensor.span<float>()[at];
        const std::uint32_t draw = rounding_draw(rounding.random, origin + (i + 11) / 37 * 500 + (i + 11) % 37);
        wrong += m.span<bf16>()[at] != round_stochastically(value, draw);
        wrong += v.span<bf16>()[at] != round_stochastically(value * value, draw_of_second(draw));
      }
      CHECK(wrong == 0);
      Tensor first(DType::bf16, {n}), wide(DType::f32, {n});  // the first alone
      adamw_update(context, step, p.tensor.span<float>(), first, wide, g.tensor.span<float>(), {}, &rounding);
      CHECK(exact_of(first) == exact_of(m));
      CHECK(static_cast<double>(wide.span<float>()[5]) == doctest::Approx(g.exact[5] * g.exact[5]));
      adamw_update(context, step, p.tensor.span<float>(), m, v, g.tensor.span<float>(), {});
      for (Index i = 0; i < n; ++i)
        REQUIRE(m.span<bf16>()[static_cast<std::size_t>(i)] ==
                bf16(g.tensor.span<float>()[static_cast<std::size_t>(i)]));
    }
  }
}

TEST_CASE("the step takes moments before they are rounded, and what is kept follows the formula") {
  for (const CpuLevel level : kRoundingLevels) {
    for (const bool stochastic : {false, true}) {
      const ComputeContext context(1, level);
      const Index n = 517;
      Values p = random_values(DType::f32, n, 1);
      Tensor m(DType::bf16, {n}), v(DType::bf16, {n}), copy(DType::bf16, {n});
      reference::AdamWState want{p.exact, Vector(static_cast<std::size_t>(n)), Vector(static_cast<std::size_t>(n))};
      AdamWRounding rounding{{1, 2}, {}, 0};
      for (Index step = 1; step <= 5; ++step) {
        const Values g = random_values(DType::f32, n, 10 + static_cast<std::uint64_t>(step));
        want.m = exact_of(m), want.v = exact_of(v);  // what was kept
        want = reference::adamw(want, g.exact, 1e-2, 0.9, 0.95, 1e-8, 0.1, step);
        rounding.random.stream = static_cast<std::uint64_t>(step);
        adamw_update(context, {1e-2, 0.9, 0.95, 1e-8, 0.1, step, 1.0F}, p.tensor.span<float>(), m, v,
                     g.tensor.span<float>(), copy, stochastic ? &rounding : nullptr);
        CHECK(normalised_error(exact_of(p.tensor), want.p) < 1e-6);
        const double unit = stochastic ? 1.01 * 0x1p-7 : 1.01 * 0x1p-8;  // of a bf16, at most; half of it to nearest
        const Vector kept_m = exact_of(m), kept_v = exact_of(v);
        for (std::size_t i = 0; i < want.m.size(); ++i) {
          REQUIRE(std::abs(kept_m[i] - want.m[i]) <= unit * std::abs(want.m[i]));
          REQUIRE(std::abs(kept_v[i] - want.v[i]) <= unit * want.v[i]);
        }
      }
      for (std::size_t i = 0; i < want.p.size(); ++i) REQUIRE(copy.span<bf16>()[i] == bf16(p.tensor.span<float>()[i]));
    }
  }
}

// v = 2 decays to g^2 = 1 with beta2 = 0.999: each step takes a thousandth off, an eighth of the distance to the next
// bf16 below 2.
TEST_CASE("a change too small for rounding to nearest is lost by it, and kept in the mean by stochastic rounding") {
  constexpr std::uint64_t seed = 31;
  CAPTURE(seed);
  const Index n = 8192;
  const int steps = 300;
  const ComputeContext context(1);
  const std::vector<float> g(static_cast<std::size_t>(n), 1.0F);
  std::vector<float> p(g.size());
  AdamWStep step;
  step.beta2 = 0.999;
  Tensor m(DType::bf16, {n}), nearest = filled_bf16(n, 2.0F), chance = filled_bf16(n, 2.0F);
  for (int t = 1; t <= steps; ++t) {
    step.step = t;
    const AdamWRounding rounding{{seed, static_cast<std::uint64_t>(t)}, {}, 0};
    adamw_update(context, step, p, m, nearest, g, {});
    adamw_update(context, step, p, m, chance, g, {}, &rounding);
  }
  for (const bf16 v : nearest.span<bf16>()) REQUIRE(v == bf16(2.0F));
  const Vector got = exact_of(chance);
  double mean = 0.0, variance = 0.0;
  for (const double v : got) mean += v / static_cast<double>(n);
  for (const double v : got) variance += (v - mean) * (v - mean) / static_cast<double>(n - 1);
  const double want = 1.0 + std::pow(0.999, steps), sigma = std::sqrt(variance / static_cast<double>(n));
  CAPTURE(mean);
  CAPTURE(sigma);
  CHECK(std::abs(mean - want) < 5.0 * sigma);
  CHECK(sigma < 2e-3);
  CHECK(want < 1.75);
}
