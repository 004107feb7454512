// Products with weights of eight and four bits against the f64 reference of what their codes stand for; codes from
// weights against a search over all codes.
#include "engine/ops/linear/weight_only.h"

#include <algorithm>
#include <limits>

#include "engine/ops/linear/gemv.h"
#include "engine/ops/linear/number_formats.h"
#include "tests/support/reference/generation_reference.h"
#include "tests/unit/engine/ops/op_check.h"

using namespace longhaul;
using namespace longhaul::op_check;

namespace {

constexpr std::uint64_t seed = 51;

struct Fp8Weight {
  Tensor codes;
  std::vector<float> scales;
  Vector exact;
};
Fp8Weight random_fp8(Index out, Index in) {
  Fp8Weight w{Tensor(DType::u8, {out, in}), {}, {}};
  PhiloxSequence draw(seed, 1);
  for (Index o = 0; o < out; ++o) w.scales.push_back(static_cast<float>(0.001 + 0.01 * draw.next_uniform()));
  for (std::uint8_t& code : w.codes.span<std::uint8_t>()) {
    code = static_cast<std::uint8_t>(draw.next_below(256));
    if ((code & 0x7F) == 0x7F) code = 1;  // NaN is no weight; the smallest number is one
  }
  const auto codes = w.codes.span<std::uint8_t>();
  w.exact = reference::fp8_weight(out, in, {codes.begin(), codes.end()}, w.scales);
  return w;
}

struct Int4Weight {
  Tensor packed, scales, zeros;
  Index group = 0;
  Vector exact;
  Int4View view() const { return {packed, scales, zeros.size() > 0 ? zeros.view() : ConstView(), group}; }
};
Int4Weight random_int4(Index out, Index in, Index group, DType scale_type, bool zeros) {
  const Index groups = int4_groups(in, group);
  Int4Weight w{Tensor(DType::u8, {out, int4_row_bytes(in)}), Tensor(scale_type, {out, groups}), {}, group, {}};
  PhiloxSequence draw(seed, 2);
  for (std::uint8_t& code : w.packed.span<std::uint8_t>()) code = static_cast<std::uint8_t>(draw.next_below(256));
  for (Index i = 0; i < out * groups; ++i) {
    const auto scale = static_cast<float>(0.01 + 0.05 * draw.next_uniform());
    if (scale_type == DType::f32)
      w.scales.span<float>()[static_cast<std::size_t>(i)] = scale;
    else
      w.scales.span<bf16>()[static_cast<std::size_t>(i)] = bf16(scale);
  }
  std::vector<std::uint8_t> zero;
  if (zeros) {
    w.zeros = Tensor(DType::u8, {out, groups});
    for (std::uint8_t& z : w.zeros.span<std::uint8_t>()) z = static_cast<std::uint8_t>(draw.next_below(16));
    zero.assign(w.zeros.span<std::uint8_t>().begin(), w.zeros.span<std::uint8_t>().end());
  }
  const auto codes = w.packed.span<std::uint8_t>();
  w.exact = reference::int4_weight(out, in, group, {codes.begin(), codes.end()}, exact_of(w.scales), zero);
  return w;
}

}  // namespace

TEST_CASE("fp8 weights: few tokens and many, rows of whole packs and others") {
  for (const auto& [in, on] : with_backends({75, 96, 2064}))
    for (const DType type : kTypes) {
      const OpContext context(2, on);
      const Index out = in > 1000 ? 5 : 530;
      const Fp8Weight w = random_fp8(out, in);
      for (const Index tokens : {1, 3, 8, 20, 40}) {  // sums of single rows, of panels, products of unpacked blocks
        if (tokens >= 20 && in > 1000) continue;
        const Values x = random_values(type, tokens * in, seed);
        Tensor y(DType::f32, {tokens, out});
        linear_forward_fp8(context, {tokens, in, out}, x, w.codes, w.scales, y);
        check_close(case_text(format("fp8 in={} tokens={}", in, tokens), type, on, seed), y,
                    reference::linear(tokens, in, out, x.exact, w.exact, {}),
                    tolerance(tokens > 8 ? type : DType::f32));
      }
    }
}

TEST_CASE("int4 weights: groups of any size, a last one that is short, zeros of their own") {
  struct Case {
    Index in, group;
    DType scales;
    bool zeros;
  };
  const Case cases[] = {{256, 128, DType::bf16, false}, {200, 128, DType::f32, true},  {96, 24, DType::bf16, true},
                        {75, 2, DType::f32, false},     {77, 128, DType::bf16, false}, {2080, 32, DType::f32, false},
                        {9248, 128, DType::bf16, true}};
  for (const Case& c : cases)
    for (const Backend& on : kBackends)
      for (const DType type : kTypes) {
        const OpContext context(2, on);
        const Index out = c.in > 1000 ? 5 : 133;
        const Int4Weight w = random_int4(out, c.in, c.group, c.scales, c.zeros);
        for (const Index tokens : {1, 3, 8, 20, 40}) {
          if (tokens >= 20 && c.in > 1000) continue;
          const Values x = random_values(type, tokens * c.in, seed);
          Tensor y(DType::f32, {tokens, out});
          linear_forward_int4(context, {tokens, c.in, out}, x, w.view(), y);
          check_close(case_text(format("int4 in={} group={} tokens={}", c.in, c.group, tokens), type, on, seed), y,
                      reference::linear(tokens, c.in, out, x.exact, w.exact, {}),
                      tolerance(tokens > 8 ? type : DType::f32));
        }
      }
}

TEST_CASE("a token has the same bits however many are computed together; results in bf16") {
  for (const Backend& on : kBackends) {
    const OpContext context(2, on);
    const Index in = 264, out = 37;
    const Fp8Weight fp8 = random_fp8(out, in);
    const Int4Weight int4 = random_int4(out, in, 128, DType::bf16, false);
    const Index most = on.gpu ? kGemvTokensMax : kPanelTokensMax;
    const Values x = random_values(DType::bf16, most * in, seed);
    const auto product = [&](bool four, Index tokens, View y) {
      if (four)
        linear_forward_int4(context, {tokens, in, out}, x, int4.view(), y);
      else
        linear_forward_fp8(context, {tokens, in, out}, x, fp8.codes, fp8.scales, y);
    };
    for (const bool four : {false, true}) {
      Tensor all(DType::f32, {most, out}), rounded(DType::bf16, {most, out});
      product(four, most, all), product(four, most, rounded);
      for (Index i = 0; i < most * out; ++i)
        CHECK(rounded.span<bf16>()[static_cast<std::size_t>(i)] ==
              bf16(all.span<float>()[static_cast<std::size_t>(i)]));
      for (Index tokens = 1; tokens < most; ++tokens) {
        Tensor some(DType::f32, {tokens, out});
        product(four, tokens, some);
        CHECK(std::ranges::equal(some.span<float>(), all.span<float>().first(some.span<float>().size())));
      }
    }
  }
}

#ifndef LONGHAUL_REAL_GPU
TEST_CASE("codes unpacked: the weight that each stands for, to the bit, on every level") {
  for (const CpuLevel level : kLevels) {
    const ComputeContext context(2, level);
    for (const DType type : kTypes)
      for (const Index in : {1, 15, 64, 200, 267}) {
        constexpr Index out = 40, begin = 3, rows = 35;
        const auto check = [&](const char* what, const Vector& exact, const Tensor& got) {
          Index wrong = 0;
          for (std::size_t i = 0; i < static_cast<std::size_t>(rows * in); ++i) {
            const auto want = static_cast<float>(exact[static_cast<std::size_t>(begin * in) + i]);
            wrong += type == DType::f32 ? got.span<float>()[i] != want : got.span<bf16>()[i] != bf16(want);
          }
          INFO(case_text(format("{} in={}", what, in), type, level, seed));
          CHECK(wrong == 0);
        };
        Tensor unpacked(type, {rows, in});
        const Fp8Weight fp8 = random_fp8(out, in);
        unpack_fp8(context, in, fp8.codes, fp8.scales, begin, rows, unpacked);
        check("fp8", fp8.exact, unpacked);
        for (const Index group : {2, 24, 32, 128}) {
          const Int4Weight int4 = random_int4(out, in, group, DType::f32, group == 24);
          unpack_int4(context, in, int4.view(), begin, rows, unpacked);
          check("int4", int4.exact, unpacked);
        }
      }
  }
}

TEST_CASE("weights to codes of E4M3: the nearest, for every row its own scale") {
  const Index rows = 4, columns = 200;
  std::vector<float> weight;
  PhiloxSequence draw(seed, 3);
  for (Index i = 0; i < rows * columns; ++i)
    weight.push_back(
        static_cast<float>((draw.next_uniform() - 0.5) * std::pow(10.0, static_cast<double>(i / columns))));
  for (Index i = 0; i < columns; ++i) weight[static_cast<std::size_t>(3 * columns + i)] = 0.0F;
  std::vector<std::uint8_t> codes(weight.size());
  std::vector<float> scales(rows);
  REQUIRE(quantize_fp8(rows, columns, weight, codes, scales));
  CHECK(scales[3] == 1.0F);
  for (std::size_t i = 0; i < weight.size(); ++i) {
    const float scale = scales[i / columns], x = weight[i] / scale;
    float best = std::numeric_limits<float>::infinity();
    for (int code = 0; code < 256; ++code)
      if ((code & 0x7F) != 0x7F)
        best = std::min(best, std::abs(decode(NumberFormat::e4m3, static_cast<std::uint8_t>(code)) - x));
    CHECK(std::abs(decode(NumberFormat::e4m3, codes[i]) - x) == best);
  }
  weight[7] = std::numeric_limits<float>::infinity();
  CHECK_FALSE(quantize_fp8(rows, columns, weight, codes, scales));
}

TEST_CASE("weights to codes of four bits: nearest of sixteen levels, ties to even, a scale for each group") {
  const Index rows = 3, columns = 75, group = 32, groups = 3;
  std::vector<float> weight;
  PhiloxSequence draw(seed, 4);
  for (Index i = 0; i < rows * columns; ++i) weight.push_back(static_cast<float>(draw.next_uniform() - 0.5));
  // 7.5 scales up and down; 0.5, 1.5 and -2.5 scales are ties.
  const float known[] = {7.5F, -7.5F, 0.5F, 1.5F, -2.5F, 0.49F, -0.51F, 3.0F};
  for (Index i = 0; i < group; ++i) weight[static_cast<std::size_t>(i)] = known[i % 8];
  std::vector<std::uint8_t> packed(static_cast<std::size_t>(rows * int4_row_bytes(columns)), 0xEE);
  std::vector<bf16> scales(rows * groups);
  REQUIRE(quantize_int4(rows, columns, group, weight, packed, scales));
  CHECK(static_cast<float>(scales[0]) == 1.0F);
  const int want[] = {7, -8, 0, 2, -2, 0, -1, 3};
  for (Index i = 0; i < 8; ++i) CHECK((packed[static_cast<std::size_t>(i / 2)] >> (i % 2 * 4) & 15) - 8 == want[i]);
  const ComputeContext context(1);
  Tensor back(DType::f32, {rows, columns});
  unpack_int4(context, columns, {ConstView(packed), ConstView(scales.data(), Shape{rows * groups}), {}, group}, 0, rows,
              back);
  for (Index i = 0; i < rows * columns; ++i) {
    const auto scale = static_cast<float>(scales[static_cast<std::size_t>(i / columns * groups + i % columns / group)]);
    const float error = back.span<float>()[static_cast<std::size_t>(i)] - weight[static_cast<std::size_t>(i)];
    CHECK(std::abs(error) <= 0.52F * scale);  // half a scale, and a scale rounded to eight bits of mantissa
  }
  CHECK((packed[37] >> 4) == 0);  // behind the last of 75
  CHECK(packed[38] == 0);
  weight[70] = std::numeric_limits<float>::quiet_NaN();
  CHECK_FALSE(quantize_int4(rows, columns, group, weight, packed, scales));
}
#endif
