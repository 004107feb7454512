#include "engine/ops/cpu/gemm/packed_gemm.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "contracts/plan/memory_plan.h"
#include "engine/ops/cpu/gemm/choose_product.h"
#include "engine/ops/cpu/gemm/gemm_onednn.h"
#include "engine/ops/cpu/gemm/packed_tiles.h"
#include "tests/unit/engine/ops/op_check.h"

using namespace longhaul;
using namespace longhaul::op_check;

namespace {

struct Types {
  DType ab, c;
};
constexpr Types kProducts[] = {{DType::f32, DType::f32}, {DType::bf16, DType::f32}, {DType::bf16, DType::bf16}};

// op(A) [m, k], op(B) [k, n] and C, stored with wider rows than they need.
struct Case {
  GemmShape shape;
  Values a, b, c;
  Vector sums, sizes;  // [m, n]: op(A) op(B), and the same of all magnitudes

  Case(Index m, Index n, Index k, int flags, Types types, Index wider, std::uint64_t seed)
      : shape{.m = m, .n = n, .k = k, .transpose_a = (flags & 1) != 0, .transpose_b = (flags & 2) != 0} {
    shape.row_stride_a = (shape.transpose_a ? m : k) + wider;
    shape.row_stride_b = (shape.transpose_b ? k : n) + 2 * wider;
    shape.row_stride_c = n + 3 * wider;
    a = random_values(types.ab, (shape.transpose_a ? k : m) * shape.row_stride_a, seed);
    b = random_values(types.ab, (shape.transpose_b ? n : k) * shape.row_stride_b, seed + 1);
    c = random_values(types.c, m * shape.row_stride_c, seed + 2);
    for (Index i = 0; i < m; ++i) {
      for (Index j = 0; j < n; ++j) {
        double sum = 0, size = 0;
        for (Index p = 0; p < k; ++p) {
          const double product = of_a(i, p) * of_b(p, j);
          sum += product, size += std::abs(product);
        }
        sums.push_back(sum), sizes.push_back(size);
      }
    }
  }
  double of_a(Index i, Index p) const { return at(a.exact, shape.transpose_a, shape.row_stride_a, i, p); }
  double of_b(Index p, Index j) const { return at(b.exact, shape.transpose_b, shape.row_stride_b, p, j); }
  static double at(const Vector& values, bool transposed, Index stride, Index row, Index column) {
    return values[static_cast<std::size_t>(transposed ? column * stride + row : row * stride + column)];
  }
};

// Every element within what f32 sums of k products may be off, and one rounding of a bf16; nothing beside C touched.
// The bound: |sum - exact| <= (k + 2) eps sum |a b| (Higham, Accuracy and Stability of Numerical Algorithms, 3.1).
void check_product(const ComputeContext& context, const Case& one, float alpha, float beta) {
  GemmShape s = one.shape;
  s.alpha = alpha, s.beta = beta;
  Tensor out(one.c.tensor.dtype(), one.c.tensor.shape());
  std::memcpy(View(out).data(), ConstView(one.c.tensor).data(),
              static_cast<std::size_t>(out.size() * dtype_bytes(out.dtype())));
  gemm_packed(context, s, one.a, one.b, out);
  const Vector got = exact_of(out);
  const double eps = std::numeric_limits<float>::epsilon();
  const double rounding = one.c.tensor.dtype() == DType::bf16 ? 0x1p-8 : eps / 2;
  Index wrong = 0;
  for (Index i = 0; i < s.m; ++i) {
    for (Index j = 0; j < s.row_stride_c; ++j) {
      const auto place = static_cast<std::size_t>(i * s.row_stride_c + j);
      double want = one.c.exact[place], bound = 0;
      if (j < s.n) {
        const auto element = static_cast<std::size_t>(i * s.n + j);
        const double sum = one.sums[element], size = one.sizes[element];
        const double old = beta == 0.0F ? 0.0 : static_cast<double>(beta) * one.c.exact[place];
        want = static_cast<double>(alpha) * sum + old;
        bound = static_cast<double>(s.k + 2) * eps * (std::abs(static_cast<double>(alpha)) * size + std::abs(old));
        bound = (bound + std::abs(want) * rounding) * 1.01;
      }
      wrong += !(std::abs(got[place] - want) <= bound);
    }
  }
  CHECK(wrong == 0);
}

std::string text_of(const ComputeContext& context, const GemmShape& s, Types types) {
  return format("{}: m={} n={} k={} ta={} tb={} {} -> {}", cpu::packed_tiles(context).name, s.m, s.n, s.k,
                s.transpose_a, s.transpose_b, dtype_name(types.ab), dtype_name(types.c));
}

Tensor product(const ComputeContext& context, GemmShape shape, ConstView a, ConstView b, DType c) {
  Tensor out(c, {shape.m, shape.n});
  shape.row_stride_c = 0;
  gemm_packed(context, shape, a, b, out);
  return out;
}
Tensor product(const ComputeContext& context, const Case& one, DType c) {
  return product(context, one.shape, one.a, one.b, c);
}

Tensor widened(const Values& values) {
  Tensor wide(DType::f32, values.tensor.shape());
  for (std::size_t i = 0; i < values.exact.size(); ++i) wide.span<float>()[i] = static_cast<float>(values.exact[i]);
  return wide;
}

bool packed_bits_equal(ConstView a, ConstView b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.size() * dtype_bytes(a.dtype()))) == 0;
}

}  // namespace

TEST_CASE("the packed product holds the f64 reference: odd sizes, transposes, strides, scalings, types, levels") {
  std::uint64_t seed = 700;
  // Around the sizes of tiles (4, 6, 8, 12 rows; 8, 12, 16, 32 columns), of blocks along k (256) and of C (1152 rows,
  // 768 columns).
  const std::array<Index, 3> sizes[] = {{1, 1, 1},     {5, 33, 7},   {6, 16, 256}, {15, 31, 257}, {145, 9, 57},
                                        {29, 200, 40}, {7, 13, 777}, {1160, 3, 9}, {3, 1165, 9}};
  for (const auto& [m, n, k] : sizes) {
    for (int flags = 0; flags < 4; ++flags) {
      for (const Types types : kProducts) {
        const Case one(m, n, k, flags, types, flags == 0 ? 0 : 5, ++seed);
        for (const CpuLevel level : kLevels) {
          const ComputeContext context(1, level);
          INFO(text_of(context, one.shape, types), ", seed ", seed);
          check_product(context, one, 1.0F, 0.0F);
          check_product(context, one, 1.0F, 1.0F);
          check_product(context, one, -0.5F, seed % 2 == 0 ? 0.0F : 0.75F);
        }
      }
    }
  }
}

TEST_CASE("a product of nothing is beta C") {
  for (const CpuLevel level : kLevels)
    check_product(ComputeContext(1, level), {9, 20, 0, 0, kProducts[2], 3, 1}, 1, 0.5);
}

TEST_CASE("packed products of bf16 are those of the same numbers in f32, bit for bit, and a bf16 C is rounded once") {
  for (const CpuLevel level : kLevels) {
    const ComputeContext context(1, level);
    for (int flags = 0; flags < 4; ++flags) {
      const Case one(61, 70, 531, flags, kProducts[1], 3, 40 + static_cast<std::uint64_t>(flags));
      const Tensor sums = product(context, one, DType::f32), rounded = product(context, one, DType::bf16);
      const Tensor a = widened(one.a), b = widened(one.b);
      CHECK(packed_bits_equal(sums, product(context, one.shape, a, b, DType::f32)));
      Index wrong = 0;
      for (std::size_t i = 0; i < sums.span<float>().size(); ++i)
        wrong += !(rounded.span<bf16>()[i] == bf16(sums.span<float>()[i]));
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("the packed product gives the same bits for any number of threads, and to a row whatever is beside it") {
  for (const CpuLevel level : kLevels) {
    const ComputeContext alone(1, level);
    const Case one(301, 217, 390, 2, kProducts[2], 0, 77);
    const Tensor want = product(alone, one, DType::bf16);
    for (const int threads : {2, 3, 7})
      CHECK(packed_bits_equal(want, product(ComputeContext(threads, level), one, DType::bf16)));
    for (const Index row : {Index{0}, Index{150}, Index{300}}) {
      Tensor out(DType::bf16, {1, 217});
      GemmShape shape = one.shape;
      shape.m = 1;
      gemm_packed(alone, shape, ConstView(one.a.tensor.span<bf16>().data() + row * 390, DType::bf16, Shape{390}), one.b,
                  out);
      CHECK(packed_bits_equal(out, ConstView(want.span<bf16>().data() + row * 217, DType::bf16, Shape{217})));
    }
  }
}

TEST_CASE("what is not a number stays in its row and its column") {
  for (const CpuLevel level : kLevels) {
    const ComputeContext context(1, level);
    Case one(31, 45, 20, 0, kProducts[0], 0, 5);
    one.a.tensor.span<float>()[30 * 20 + 3] = std::numeric_limits<float>::quiet_NaN();
    one.b.tensor.span<float>()[7 * 45 + 44] = std::numeric_limits<float>::infinity();
    const Tensor out = product(context, one, DType::f32);
    Index wrong = 0;
    for (Index i = 0; i < 31; ++i)
      for (Index j = 0; j < 45; ++j)
        wrong += std::isfinite(out.span<float>()[static_cast<std::size_t>(i * 45 + j)]) != (i < 30 && j < 44);
    CHECK(wrong == 0);
  }
}

TEST_CASE("the packed product's scratch memory stays below what is planned for it") {
  PhiloxSequence draw(9);
  const auto size = [&](std::uint64_t below) { return 1 + static_cast<Index>(draw.next_below(below)); };
  for (const CpuLevel level : kLevels) {
    const ComputeContext context(1, level);
    for (int i = 0; i < 200; ++i) {
      const std::int64_t tokens = size(3000), width = size(5000), inner = size(5000);
      const auto bytes = [&](GemmShape shape, DType c) {
        return cpu::packed_gemm_scratch(context, cpu::gemm_case(shape, DType::bf16, c));
      };
      const std::int64_t planned = packed_product_bytes(tokens, std::max(width, inner), 0, true);
      CHECK(bytes({.m = tokens, .n = width, .k = inner}, DType::bf16) <= planned);
      CHECK(bytes({.m = width, .n = inner, .k = tokens}, DType::f32) <= planned);
    }
  }
}

TEST_CASE(
    "who computes a product: oneDNN what an instruction multiplies and it has code for, else the packed product") {
  using cpu::ProductPath;
  struct Row {
    const char* processor;
    cpu::ProductMeans means;
    ProductPath f32, bf16;
  };
  constexpr auto library = ProductPath::library, packed = ProductPath::packed;
  const Row rows[] = {
      {"AVX2: oneDNN refuses bf16", {true, false, true, false}, library, packed},
      {"AVX2, oneDNN 3: bf16 by conversion", {true, false, true, true}, library, packed},
      {"AVX-512 without BF16: oneDNN emulates it", {true, false, true, true}, library, packed},
      {"AVX512_BF16", {true, true, true, true}, library, library},
      {"AMX", {true, true, true, true}, library, library},
      {"NEON, oneDNN with its reference alone", {true, false, false, false}, packed, packed},
      {"NEON with BFMMLA, oneDNN with its reference alone", {true, true, false, false}, packed, packed},
      {"NEON, oneDNN with Arm's library", {true, false, true, false}, library, packed},
      {"NEON with BFMMLA, oneDNN with Arm's library", {true, true, true, true}, library, library},
      {"a level below the best", {false, true, true, true}, packed, packed},
  };
  for (const Row& row : rows) {
    CAPTURE(row.processor);
    CHECK(cpu::choose_product(DType::f32, row.means) == row.f32);
    CHECK(cpu::choose_product(DType::bf16, row.means) == row.bf16);
  }
}

// CTest runs this once more with oneDNN held to AVX2 (ONEDNN_MAX_CPU_ISA, which the library reads itself).
TEST_CASE("held to AVX2, bf16 takes the packed product and f32 the library's") {
  const ComputeContext context(2);
  const char* const held = std::getenv("ONEDNN_MAX_CPU_ISA");
  if (held != nullptr && std::string(held) == "AVX2") {
    CHECK(gemm_is_packed(context, DType::bf16));
    CHECK_FALSE(gemm_compiles(context, DType::bf16));
#if defined(__x86_64__)
    CHECK_FALSE(gemm_is_packed(context, DType::f32));
#endif
  }
  CHECK(gemm_is_packed(ComputeContext(1, CpuLevel::avx2), DType::f32));
  // Whatever the path: right, and packed bits where it is the packed product's.
  const Case one(130, 96, 300, 2, kProducts[2], 0, 3);
  Tensor got(DType::bf16, {130, 96});
  GemmShape shape = one.shape;
  gemm(context, shape, one.a, one.b, got);
  check_close("gemm", got, reference::gemm(130, 96, 300, false, true, 1.0, one.a.exact, one.b.exact, 0.0, {}),
              tolerance(DType::bf16));
  if (gemm_is_packed(context, DType::bf16)) CHECK(packed_bits_equal(got, product(context, one, DType::bf16)));
}
