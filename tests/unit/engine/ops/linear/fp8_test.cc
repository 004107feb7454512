// Numbers of eight bits: codes and scales are those that quantize_blocks.h rounds to, on processors and GPUs with the
// same bits; products are held to f64 sums of what the codes stand for. GPUs without such products say why.
#include "engine/ops/linear/fp8.h"

#include <cstring>

#include "engine/ops/linear/quantize_blocks.h"
#include "tests/support/seed.h"
#include "tests/unit/engine/ops/op_check.h"

using namespace longhaul;
using namespace longhaul::op_check;

namespace {

// x with columns of very unlike size, so that a scale at a wrong place shows.
Values wide_values(DType dtype, Index rows, Index columns, std::uint64_t seed) {
  Values v = random_values(dtype, rows * columns, seed);
  for (Index i = 0; i < rows * columns; ++i) {
    const auto factor = static_cast<float>(std::ldexp(1.0, static_cast<int>(i / 16 % 7) - 3));
    const auto at = static_cast<std::size_t>(i);
    if (dtype == DType::f32)
      v.tensor.span<float>()[at] *= factor;
    else
      v.tensor.span<bf16>()[at] = bf16(static_cast<float>(v.tensor.span<bf16>()[at]) * factor);
  }
  v.exact = exact_of(v.tensor);
  return v;
}

struct Cast {
  Tensor codes, scales;
  Fp8Matrix matrix;
  // What they stand for, [rows, columns].
  Vector values() const {
    Vector out;
    const auto* const bytes = scales.span<std::uint8_t>().data();
    for (Index r = 0; r < matrix.rows; ++r)
      for (Index c = 0; c < matrix.columns; ++c) {
        const Index place = fp8_scale_place(matrix.scales, matrix.rows, matrix.columns, r, c);
        const float scale =
            matrix.scales == Fp8Scales::mx ? decode_e8m0(bytes[place]) : reinterpret_cast<const float*>(bytes)[place];
        const std::uint8_t code = codes.span<std::uint8_t>()[static_cast<std::size_t>(r * matrix.columns + c)];
        out.push_back(static_cast<double>(decode(matrix.format, code) * scale));
      }
    return out;
  }
};
Cast cast_of(const ComputeContext& on, const Fp8Cast& how, const Values& x) {
  Cast cast{Tensor(DType::u8, {how.to.rows * how.to.columns}), Tensor(DType::u8, {how.to.scale_bytes()}), how.to};
  if (how.to.scales == Fp8Scales::tensor) {
    Tensor amax(DType::f32, {1});
    amax.span<float>()[0] = 0;
    fp8_keep_amax(on, x, amax);
    fp8_tensor_scale(on, how.to.format, 0, amax, View(cast.scales.view().data(), DType::f32, Shape{1}));
  }
  fp8_cast(on, how, x, cast.codes, cast.scales);
  return cast;
}
bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.bytes() == b.bytes() &&
         std::memcmp(a.view().data(), b.view().data(), static_cast<std::size_t>(a.bytes())) == 0;
}
Vector transposed(const Vector& x, Index rows, Index columns) {
  Vector out(x.size());
  for (Index r = 0; r < rows; ++r)
    for (Index c = 0; c < columns; ++c)
      out[static_cast<std::size_t>(c * rows + r)] = x[static_cast<std::size_t>(r * columns + c)];
  return out;
}

constexpr Fp8Scales all_scales[] = {Fp8Scales::tensor, Fp8Scales::rows, Fp8Scales::squares, Fp8Scales::mx};

}  // namespace

TEST_CASE("codes and scales stand for what fake quantisation rounds to, in both orders, on every backend") {
  const std::uint64_t seed = longhaul::testing::seed(20261125);
  CAPTURE(seed);
  const ComputeContext cpu(1);
  for (const DType dtype : kTypes)
    for (const auto& [rows, columns] : {std::pair<Index, Index>{16, 16}, {144, 272}, {48, 656}})
      for (const Fp8Scales scales : all_scales)
        for (const bool turned : {false, true}) {
          const NumberFormat format = scales == Fp8Scales::tensor ? NumberFormat::e5m2 : NumberFormat::e4m3;
          const Values x = wide_values(dtype, rows, columns, seed);
          // A product sums over the columns; transposed, over what were rows.
          const Fp8Cast how{{turned ? columns : rows, turned ? rows : columns, format, scales}, turned};
          Tensor rounded(DType::f32, {rows * columns}), wide(DType::f32, {rows * columns});
          for (std::size_t i = 0; i < x.exact.size(); ++i) wide.span<float>()[i] = static_cast<float>(x.exact[i]);
          if (scales == Fp8Scales::tensor) {
            quantize_tensor(cpu, format, tensor_scale(format, largest_magnitude(cpu, wide), 0), wide, rounded);
          } else {
            const Index along = scales == Fp8Scales::mx ? 32 : 128, across = scales == Fp8Scales::squares ? 128 : 1;
            quantize_blocks(cpu, rows, columns,
                            {format, turned ? along : across, turned ? across : along, ScaleRounding::up}, wide,
                            rounded);
          }
          const Vector want = turned ? transposed(exact_of(rounded), rows, columns) : exact_of(rounded);
          const Cast on_cpu = cast_of(cpu, how, x);
          CAPTURE(dtype_name(dtype));
          CAPTURE(to_string(scales));
          CAPTURE(columns);
          CAPTURE(turned);
          CHECK(on_cpu.values() == want);
          for (const Backend& on : kBackends) {
            if (!on.gpu) continue;
            const Cast on_gpu = cast_of(OpContext(1, on), how, x);
            CHECK(same_bytes(on_cpu.codes, on_gpu.codes));
            CHECK(on_gpu.values() == want);
            if (scales == Fp8Scales::mx) CHECK(same_bytes(on_cpu.scales, on_gpu.scales));  // zeros of tiles too
          }
        }
}

TEST_CASE("a number that is none spoils its block; what is too large saturates; all zeros stay zeros") {
  for (const Backend& on : kBackends) {
    const OpContext context(1, on);
    Values x = random_values(DType::f32, 16 * 256, 1);
    x.tensor.span<float>()[5] = NAN, x.tensor.span<float>()[256 + 200] = -INFINITY;
    for (std::size_t i = 0; i < 256; ++i) x.tensor.span<float>()[512 + i] = 0;
    const Vector got = cast_of(context, {{16, 256, NumberFormat::e4m3, Fp8Scales::rows}}, x).values();
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::isnan(got[i]) == (i < 128 || (i >= 384 && i < 512)));
    for (std::size_t i = 512; i < 768; ++i) CHECK(got[i] == 0);
    Tensor scale(DType::f32, {1}), codes(DType::u8, {16 * 256});
    scale.span<float>()[0] = 1e-3F;
    fp8_cast(context, {{16, 256, NumberFormat::e4m3, Fp8Scales::tensor}}, x, codes,
             View(scale.view().data(), DType::u8, Shape{4}));
    CHECK(codes.span<std::uint8_t>()[256 + 200] == encode(NumberFormat::e4m3, -448.0F));
    CHECK(codes.span<std::uint8_t>()[5] == 0x7F);
  }
}

TEST_CASE("the largest magnitude is kept over several tensors, and no number stays none") {
  for (const Backend& on : kBackends) {
    const OpContext context(1, on);
    Tensor amax(DType::f32, {1}), scale(DType::f32, {1});
    amax.span<float>()[0] = 0;
    Values x = random_values(DType::bf16, 9001, 3);
    for (const float most : {7.0F, 3.0F}) {
      x.tensor.span<bf16>()[4321] = bf16(-most);
      fp8_keep_amax(context, x, amax);
      CHECK(amax.span<float>()[0] == 7.0F);
    }
    fp8_tensor_scale(context, NumberFormat::e5m2, 2, amax, scale);
    CHECK(scale.span<float>()[0] == tensor_scale(NumberFormat::e5m2, 7.0F, 2));
    x.tensor.span<bf16>()[17] = bf16(NAN);
    fp8_keep_amax(context, x, amax);
    x.tensor.span<bf16>()[17] = bf16(0);
    fp8_keep_amax(context, x, amax);
    CHECK(std::isnan(amax.span<float>()[0]));
  }
}

TEST_CASE("products: every pair of scales and formats that goes together, bias, f32 that accumulates; or why not") {
  const std::uint64_t seed = longhaul::testing::seed(20261125);
  CAPTURE(seed);
  const Index m = 48, n = 144, k = 272;
  struct Pair {
    Fp8Scales a, b;
    NumberFormat format_a, format_b;
  };
  constexpr NumberFormat e4m3 = NumberFormat::e4m3, e5m2 = NumberFormat::e5m2;
  for (const Pair& pair : {Pair{Fp8Scales::tensor, Fp8Scales::tensor, e4m3, e4m3},
                           {Fp8Scales::tensor, Fp8Scales::tensor, e5m2, e4m3},
                           {Fp8Scales::rows, Fp8Scales::squares, e4m3, e4m3},
                           {Fp8Scales::rows, Fp8Scales::rows, e4m3, e4m3},
                           {Fp8Scales::mx, Fp8Scales::mx, e4m3, e4m3}})
    for (const DType out : kTypes)
      for (const Backend& on : kBackends) {
        if (on.level == CpuLevel::portable || on.level == CpuLevel::avx2) continue;
        const OpContext context(1, on);
        const Values x = wide_values(DType::f32, m, k, seed), w = wide_values(DType::f32, n, k, seed + 1);
        const Cast a = cast_of(context, {{m, k, pair.format_a, pair.a}}, x);
        const Cast b = cast_of(context, {{n, k, pair.format_b, pair.b}}, w);
        const Values bias = random_values(out, n, seed + 2);
        Values c = random_values(out, m * n, seed + 3);
        Fp8Product shape{m, n, k, pair.format_a, pair.format_b, pair.a, pair.b};
        const Fp8Operands operands{a.codes, a.scales, b.codes, b.scales};
        CAPTURE(to_string(pair.a));
        CAPTURE(to_string(pair.b));
        CAPTURE(on.gpu);
        const Fp8Support support = fp8_support(context);
        if (on.gpu) {
          const std::string why = fp8_refusal(context, shape, operands, c.tensor);
          CHECK(why.empty() == (support.has(pair.a) && support.has(pair.b)));
          if (!why.empty()) continue;  // which says what it lacks
        }
        fp8_product(context, shape, operands, c, bias);
        Vector want = reference::gemm(m, n, k, false, true, 1.0, a.values(), b.values(), 0.0, {});
        for (std::size_t i = 0; i < want.size(); ++i) want[i] += bias.exact[i % static_cast<std::size_t>(n)];
        check_close("fp8 with bias", c.tensor, want, library_tolerance(out));
        shape.beta = 1;
        const Vector before = exact_of(c.tensor);
        fp8_product(context, shape, operands, c);
        const Vector twice = reference::gemm(m, n, k, false, true, 1.0, a.values(), b.values(), 1.0, before);
        check_close("fp8 accumulated", c.tensor, twice, library_tolerance(out));
      }
}
