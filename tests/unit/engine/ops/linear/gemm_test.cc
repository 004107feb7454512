#include "engine/ops/linear/gemm.h"

#include "engine/ops/cpu/simd/kernels.h"
#include "engine/ops/linear/gemv.h"
#include "tests/unit/engine/ops/op_check.h"

using namespace longhaul;
using namespace longhaul::op_check;

TEST_CASE("gemm follows the reference for all transpositions, types, scalings, by oneDNN and by own code") {
  std::uint64_t seed = 100;
  for (const auto& [m, n, k] : {std::array<Index, 3>{1, 1, 1}, {13, 17, 29}, {67, 130, 65}, {128, 64, 300}}) {
    for (int flags = 0; flags < 4; ++flags) {
      for (const auto& [ab, c_type] :
           {std::pair{DType::f32, DType::f32}, {DType::bf16, DType::f32}, {DType::bf16, DType::bf16}}) {
        for (float beta : {0.0F, 1.0F}) {
          for (const Backend& level : kBackends) {
            const OpContext context(2, level);
            ++seed;
            GemmShape shape{.m = m, .n = n, .k = k};
            shape.transpose_a = (flags & 1) != 0;
            shape.transpose_b = (flags & 2) != 0;
            shape.alpha = beta == 0.0F ? 0.5F : 1.0F;
            shape.beta = beta;
            Values a = random_values(ab, m * k, seed), b = random_values(ab, k * n, seed + 1000);
            Values c = random_values(c_type, m * n, seed + 2000);
            const Vector want = reference::gemm(m, n, k, shape.transpose_a, shape.transpose_b, shape.alpha, a.exact,
                                                b.exact, beta, c.exact);
            gemm(context, shape, a, b, c);
            check_close(
                case_text(format("gemm m={} n={} k={} flags={} beta={}", m, n, k, flags, beta), c_type, level, seed),
                c.tensor, want, tolerance(c_type));
          }
        }
      }
    }
  }
}

// Of what oneDNN does on a processor, its name for what it would run is all that can be seen; the kernels of this
// engine ask the processor itself.
TEST_CASE("products are compiled one by one where the processor has AVX-512, and never by own code") {
  const bool has = std::string(cpu::kernels_name(ComputeContext(1))).find("avx512") == 0;
  CHECK(gemm_compiles(ComputeContext(1), DType::f32) == has);
  if (!has) CHECK_FALSE(gemm_compiles(ComputeContext(1), DType::bf16));
  for (const DType dtype : {DType::f32, DType::bf16})
    CHECK_FALSE(gemm_compiles(ComputeContext(1, CpuLevel::portable), dtype));
}

TEST_CASE("gemm reads and writes slices of wider matrices and leaves the rest alone") {
  for (const Backend& level : kBackends) {
    const OpContext own(2, level);
    GemmShape shape{.m = 20, .n = 24, .k = 33};
    shape.row_stride_a = 40;
    shape.row_stride_c = 50;
    const Values wide = random_values(DType::f32, 20 * 40, 1);
    const Values b = random_values(DType::f32, 33 * 24, 2);
    Values c = random_values(DType::f32, 20 * 50, 3);
    Vector tight;
    for (std::size_t i = 0; i < 20; ++i) {
      for (std::size_t p = 0; p < 33; ++p) tight.push_back(wide.exact[i * 40 + p]);
    }
    const Vector product = reference::gemm(20, 24, 33, false, false, 1.0, tight, b.exact, 0.0, {});
    Vector want = c.exact;
    for (std::size_t i = 0; i < 20; ++i) {
      for (std::size_t j = 0; j < 24; ++j) want[i * 50 + j] = product[i * 24 + j];
    }
    gemm(own, shape, wide, b, c);
    check_close("slice", c.tensor, want, tolerance(DType::f32));
    for (std::size_t j = 24; j < 50; ++j) CHECK(exact_of(c.tensor)[j] == want[j]);
  }
}

TEST_CASE("linear layers: forward with bias, both gradients, accumulation over micro-batches") {
  for (DType dtype : kTypes) {
    for (const auto& [tokens, level] : with_backends({3, 8, 9, 37})) {
      const OpContext context(2, level);
      const std::uint64_t seed = 500 + static_cast<std::uint64_t>(tokens);
      const LinearShape shape{tokens, 45, 70};
      const Values x = random_values(dtype, tokens * 45, seed), w = random_values(dtype, 70 * 45, seed + 1);
      const Values bias = random_values(dtype, 70, seed + 2), dy = random_values(dtype, tokens * 70, seed + 3);
      Tensor y(dtype, {tokens, 70}), dx(dtype, {tokens, 45});
      Tensor dw(DType::f32, {70, 45}), db(DType::f32, {70});
      const std::string text = case_text(format("linear tokens={}", tokens), dtype, level, seed);
      linear_forward(context, shape, x, w, y, bias);
      check_close(text + " y", y, reference::linear(tokens, 45, 70, x.exact, w.exact, bias.exact),
                  1.5 * tolerance(dtype));
      const auto g = reference::linear_backward(tokens, 45, 70, dy.exact, x.exact, w.exact);
      linear_backward_input(context, shape, dy, w, dx);
      check_close(text + " dx", dx, g.dx, tolerance(dtype));
      linear_backward_weight(context, shape, dy, x, dw, db, false);
      check_close(text + " dw", dw, g.dweight, tolerance(DType::f32));
      check_close(text + " db", db, g.dbias, tolerance(DType::f32));
      linear_backward_weight(context, shape, dy, x, dw, db);
      Vector twice = g.dweight;
      for (double& value : twice) value *= 2.0;
      check_close(text + " dw twice", dw, twice, tolerance(DType::f32));
    }
  }
}

TEST_CASE("gemv gives every token the same bits, however many are computed together") {
  for (const auto& [in, level] : with_backends({203, 256, 2600})) {
    for (DType dtype : kTypes) {
      const OpContext two(2, level), cpu(1, {level.level});
      const ComputeContext& one = level.gpu ? two : cpu;  // of GPUs one at a time
      const Index out = in > 1000 ? 21 : 301;
      const Values x = random_values(dtype, 8 * in, 21), w = random_values(dtype, out * in, 22);
      Tensor all(DType::f32, {8, out});
      gemv(two, {8, in, out}, x, w, all);
      check_close("gemv", all, reference::linear(8, in, out, x.exact, w.exact, {}), tolerance(DType::f32));
      for (Index tokens = 1; tokens < 8; ++tokens) {
        Tensor some(DType::f32, {tokens, out});
        gemv(one, {tokens, in, out}, x, w, some);
        for (Index i = 0; i < tokens * out; ++i) {
          REQUIRE(some.span<float>()[static_cast<std::size_t>(i)] == all.span<float>()[static_cast<std::size_t>(i)]);
        }
      }
    }
  }
}

TEST_CASE("int8 weights: few tokens and many, all columns") {
  for (const auto& [in, level] : with_backends({75, 96})) {
    const OpContext context(2, level);
    for (Index tokens : {1, 5, 20, 40}) {
      const Index out = 530;
      Tensor q(DType::i8, {out, in});
      std::vector<float> scales;
      Vector weight;
      PhiloxSequence draw(31);
      for (Index o = 0; o < out; ++o) {
        scales.push_back(static_cast<float>(0.01 + draw.next_uniform()));
        for (Index i = 0; i < in; ++i) {
          const auto value = static_cast<std::int8_t>(static_cast<int>(draw.next_below(255)) - 127);
          q.span<std::int8_t>()[static_cast<std::size_t>(o * in + i)] = value;
          weight.push_back(static_cast<double>(value) * static_cast<double>(scales.back()));
        }
      }
      const Values x = random_values(DType::f32, tokens * in, 32);
      Tensor y(DType::f32, {tokens, out});
      linear_forward_int8(context, {tokens, in, out}, x, q, scales, y);
      check_close(format("int8 tokens={}", tokens), y, reference::linear(tokens, in, out, x.exact, weight, {}),
                  tolerance(DType::f32));
    }
  }
}
