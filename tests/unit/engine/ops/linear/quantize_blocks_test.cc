// Fake quantisation against the formats' scalar functions, element by element: all formats, block shapes, odd sizes,
// both types, every instruction set, any number of threads.
#include "engine/ops/linear/quantize_blocks.h"

#include <cstring>

#include "engine/ops/linear/gemm.h"
#include "tests/support/seed.h"
#include "tests/unit/engine/ops/op_check.h"

using namespace longhaul;
using namespace longhaul::op_check;

namespace {

constexpr NumberFormat formats[] = {NumberFormat::e5m2, NumberFormat::e4m3, NumberFormat::e3m2,
                                    NumberFormat::e2m3, NumberFormat::e2m1, NumberFormat::int8};

struct Expected {
  std::vector<float> values;
  QuantizationSums sums;
};

Expected expected_of(Index rows, Index columns, const BlockQuantization& how, const std::vector<double>& x) {
  Expected out;
  out.values.resize(x.size());
  const auto at = [&](Index r, Index c) { return static_cast<std::size_t>(r * columns + c); };
  for (Index r0 = 0; r0 < rows; r0 += how.rows)
    for (Index c0 = 0; c0 < columns; c0 += how.columns) {
      const Index r1 = std::min(rows, r0 + how.rows), c1 = std::min(columns, c0 + how.columns);
      double amax = 0;
      for (Index r = r0; r < r1; ++r)
        for (Index c = c0; c < c1; ++c) amax = std::max(amax, std::abs(x[at(r, c)]));
      const float scale = decode_e8m0(scale_code(how.format, how.rounding, static_cast<float>(amax)));
      for (Index r = r0; r < r1; ++r)
        for (Index c = c0; c < c1; ++c) {
          const double scaled = x[at(r, c)] / static_cast<double>(scale);
          const float y = round_to(how.format, static_cast<float>(scaled)) * scale;
          out.values[at(r, c)] = y;
          const double noise = static_cast<double>(y) - x[at(r, c)];
          const NumberTraits t = traits_of(how.format);
          const double half = std::ldexp(1.0, t.exponent_max - t.mantissa_bits - 1);
          out.sums += {x[at(r, c)] * x[at(r, c)], noise * noise, x[at(r, c)] != 0 ? 1.0 : 0.0,
                       x[at(r, c)] != 0 && y == 0 ? 1.0 : 0.0,
                       std::abs(scaled) > static_cast<double>(t.max) + half ? 1.0 : 0.0};
        }
    }
  return out;
}

bool near(double a, double b) {
  return std::abs(a - b) <= 1e-5 * std::max(std::abs(a), std::abs(b)) + 1e-30;
}

std::vector<double> as_doubles(ConstView view) {
  return exact_of(view);
}

}  // namespace

TEST_CASE("blocks of every shape and format, odd sizes, both types and all instruction sets") {
  const std::uint64_t seed = longhaul::testing::seed(20261124);
  CAPTURE(seed);
  struct Size {
    Index rows, columns;
  };
  for (const Size size : {Size{1, 32}, Size{3, 70}, Size{130, 160}, Size{33, 17}})
    for (const auto& [block_rows, block_columns] :
         {std::pair<Index, Index>{1, 32}, {32, 1}, {1, 128}, {128, 1}, {128, 128}})
      for (const NumberFormat format : formats)
        for (const ScaleRounding rounding : {ScaleRounding::floor, ScaleRounding::up})
          for (const DType dtype : {DType::f32, DType::bf16}) {
            Values x = random_values(dtype, size.rows * size.columns, seed);
            if (dtype == DType::f32) {  // zeros, and a wide range
              x.tensor.span<float>()[0] = 0, x.tensor.span<float>()[5] = 3e-6F, x.tensor.span<float>()[7] = 1e6F;
              x.exact = exact_of(x.tensor);
            }
            const BlockQuantization how{format, block_rows, block_columns, rounding};
            const Expected expected = expected_of(size.rows, size.columns, how, x.exact);
            for (const Backend on : kBackends) {
              if (on.level == CpuLevel::avx512 || on.level == CpuLevel::avx512_bf16) continue;
              const OpContext context(on.level == CpuLevel::best ? 2 : 1, on);
              Tensor y(dtype, {size.rows * size.columns});
              QuantizationSums sums;
              quantize_blocks(context, size.rows, size.columns, how, x, y, &sums);
              const std::vector<double> got = as_doubles(y);
              bool equal = true;
              for (std::size_t i = 0; i < got.size(); ++i) equal &= got[i] == static_cast<double>(expected.values[i]);
              CAPTURE(name_of(format));
              CAPTURE(size.rows);
              CAPTURE(size.columns);
              CAPTURE(block_rows);
              CAPTURE(block_columns);
              CAPTURE(static_cast<int>(on.level));
              CAPTURE(on.gpu);
              CAPTURE(static_cast<int>(rounding));
              CHECK(equal);
              CHECK(near(sums.signal, expected.sums.signal));
              CHECK(near(sums.noise, expected.sums.noise));
              CHECK(sums.values == expected.sums.values);
              CHECK(sums.flushed == expected.sums.flushed);
              CHECK(sums.saturated == expected.sums.saturated);
              if (rounding == ScaleRounding::up) CHECK(sums.saturated == 0);
            }
          }
}

TEST_CASE("a number that is none spoils its block and no other") {
  for (const Backend on : kBackends)
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
      const OpContext context(1, on);
      Values x = random_values(DType::f32, 64, 1);
      x.tensor.span<float>()[40] = bad;
      quantize_blocks(context, 1, 64, {NumberFormat::e4m3, 1, 32, ScaleRounding::up}, x, x);
      for (std::size_t i = 0; i < 64; ++i) CHECK(std::isnan(x.tensor.span<float>()[i]) == (i >= 32));
      CHECK(!std::isfinite(largest_magnitude(context, x)));
    }
}

TEST_CASE("one scale for a whole tensor: values and sums do not depend on threads") {
  const std::uint64_t seed = longhaul::testing::seed(20261124);
  CAPTURE(seed);
  for (const NumberFormat format : {NumberFormat::e4m3, NumberFormat::e5m2}) {
    const Values x = random_values(DType::f32, 70001, seed);
    const ComputeContext one(1);
    for (const Backend on : kBackends) {
      const OpContext two(2, on);
      const float amax = largest_magnitude(one, x);
      double most = 0;
      for (const double value : x.exact) most = std::max(most, std::abs(value));
      CHECK(static_cast<double>(amax) == most);
      CHECK(largest_magnitude(two, x) == amax);
      const float scale = tensor_scale(format, amax / 2, 0);  // a late scale: the largest saturate
      Tensor a(DType::f32, {70001}), b(DType::f32, {70001});
      QuantizationSums first, second;
      quantize_tensor(one, format, scale, x, a, &first);
      quantize_tensor(two, format, scale, x, b, &second);
      CHECK(std::memcmp(a.view().data(), b.view().data(), 70001 * 4) == 0);
      if (on.level == CpuLevel::best && !on.gpu) CHECK(first.noise == second.noise);
      CHECK(near(first.noise, second.noise));
      CHECK(near(first.signal, second.signal));
      CHECK(first.values == second.values);
      CHECK(first.flushed == second.flushed);
      CHECK(first.saturated == second.saturated);
      CHECK(first.saturated > 0);
      for (std::size_t i = 0; i < 70001; ++i) {
        const float scaled = x.tensor.span<float>()[i] * (1.0F / scale);
        REQUIRE(a.span<float>()[i] == round_to(format, scaled) * scale);
      }
    }
  }
}

#ifndef __SANITIZE_ADDRESS__
TEST_CASE("a GPU's kernels quantise into the processor's bits, in place too") {
  const std::uint64_t seed = longhaul::testing::seed(20261124);
  CAPTURE(seed);
  const OpContext cpu(1, {CpuLevel::best}), gpu(1, {CpuLevel::best, true});
  for (const DType dtype : kTypes)
    for (const NumberFormat format : formats)
      for (const auto& [block_rows, block_columns] :
           {std::pair<Index, Index>{1, 16}, {1, 32}, {1, 256}, {1, 48}, {32, 1}, {7, 1}, {16, 16}})
        for (const auto& [rows, columns] : {std::pair<Index, Index>{37, 512}, {5, 131}, {96, 48}}) {
          const Values x = random_values(dtype, rows * columns, seed, 40.0);
          const BlockQuantization how{format, block_rows, block_columns, ScaleRounding::floor};
          Tensor a(dtype, {rows * columns}), b(dtype, {rows * columns});
          std::memcpy(b.view().data(), x.tensor.view().data(), static_cast<std::size_t>(b.view().bytes()));
          quantize_blocks(cpu, rows, columns, how, x, a);
          quantize_blocks(gpu, rows, columns, how, b, b);
          CAPTURE(name_of(format));
          CAPTURE(block_rows);
          CAPTURE(block_columns);
          CAPTURE(columns);
          CHECK(std::memcmp(a.view().data(), b.view().data(), static_cast<std::size_t>(a.view().bytes())) == 0);
        }
}
#endif

// What a layer's safety is judged by: the noise of a product is the sum of its operands'.
TEST_CASE("the noise of a product is forecast by that of its operands") {
  const std::uint64_t seed = longhaul::testing::seed(20261124);
  CAPTURE(seed);
  const ComputeContext context(1);
  const Index m = 64, n = 48, k = 512;
  for (const NumberFormat format : formats) {
    const Values x = random_values(DType::f32, m * k, seed), w = random_values(DType::f32, n * k, seed + 1, 0.02);
    Tensor xq(DType::f32, {m * k}), wq(DType::f32, {n * k}), y(DType::f32, {m * n}), yq(DType::f32, {m * n});
    QuantizationSums of_x, of_w;
    quantize_blocks(context, m, k, {format, 1, 32, ScaleRounding::up}, x, xq, &of_x);
    quantize_blocks(context, n, k, {format, 1, 32, ScaleRounding::up}, w, wq, &of_w);
    linear_forward(context, {m, k, n}, x, w, y);
    linear_forward(context, {m, k, n}, xq, wq, yq);
    double signal = 0, noise = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(m * n); ++i) {
      const double exact = static_cast<double>(y.span<float>()[i]);
      const double d = static_cast<double>(yq.span<float>()[i]) - exact;
      signal += exact * exact, noise += d * d;
    }
    const double reported = of_x.noise / of_x.signal + of_w.noise / of_w.signal;
    CAPTURE(name_of(format));
    CHECK(noise / signal > 0.8 * reported);
    CHECK(noise / signal < 1.25 * reported);
  }
}
