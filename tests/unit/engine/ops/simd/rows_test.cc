// Norm, rotation, activation, embedding, loss, optimizer and flat arrays against the reference, on odd sizes.
#include <array>
#include <cstring>
#include <limits>

#include "engine/ops/attention/attention.h"
#include "engine/ops/attention/rope.h"
#include "engine/ops/attention/softmax.h"
#include "engine/ops/cpu/simd/kernels.h"
#include "engine/ops/loss/cross_entropy.h"
#include "engine/ops/pointwise/adamw.h"
#include "engine/ops/pointwise/elementwise.h"
#include "engine/ops/pointwise/embedding.h"
#include "engine/ops/pointwise/rmsnorm.h"
#include "engine/ops/pointwise/swiglu.h"
#include "tests/unit/engine/ops/op_check.h"

using namespace longhaul;
using namespace longhaul::op_check;

namespace {

template <class F>
void rows_for_all(const F& fn) {
  for (DType dtype : kTypes) {
    for (const Backend& level : kBackends) fn(dtype, level);
  }
}

}  // namespace

TEST_CASE("the vector exponential is good to two units in the last place and ends in 0 and infinity") {
  for (CpuLevel level : kLevels) {
    const ComputeContext context(1, level);
    std::vector<float> x, y(40001);
    for (int i = 0; i <= 40000; ++i) x.push_back(-87.0F + 0.0043F * static_cast<float>(i));
    cpu::kernels(context).exp_array(x.data(), y.data(), static_cast<Index>(x.size()));
    double worst = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double want = std::exp(static_cast<double>(x[i]));
      worst = std::max(worst, std::abs(static_cast<double>(y[i]) - want) / want);
    }
    CHECK(worst < 2.4e-7);
    const float ends[] = {-1e30F, -200.0F, 0.0F};
    cpu::kernels(context).exp_array(ends, y.data(), 3);
    CHECK(y[0] == 0.0F);
    CHECK(y[1] == 0.0F);
    CHECK(y[2] == 1.0F);
  }
}

TEST_CASE("rmsnorm forward, backward, accumulation, and the residual in one pass") {
  rows_for_all([](DType dtype, Backend level) {
    for (const auto& [tokens, hidden] : {std::array<Index, 2>{1, 3}, {150, 67}, {33, 256}}) {
      const OpContext context(2, level);
      const std::uint64_t seed = 200;
      const RmsNormShape shape{tokens, hidden, 1e-5F};
      const Index n = tokens * hidden;
      Values x = random_values(dtype, n, seed), w = random_values(dtype, hidden, seed + 1),
             dy = random_values(dtype, n, seed + 2);
      Tensor y(dtype, {n}), sum(dtype, {n});
      Values dx = random_values(dtype, n, seed + 3);
      std::vector<float> inv_rms(static_cast<std::size_t>(tokens)), dw(static_cast<std::size_t>(hidden), 1.0F);
      const std::string text = case_text(format("rmsnorm t={} h={}", tokens, hidden), dtype, level, seed);
      rmsnorm_forward(context, shape, x, w, y, inv_rms);
      check_close(text + " y", y, reference::rmsnorm(tokens, hidden, 1e-5, x.exact, w.exact), tolerance(dtype));
      auto g = reference::rmsnorm_backward(tokens, hidden, 1e-5, dy.exact, x.exact, w.exact);
      for (double& value : g.dweight) value += 1.0;
      for (std::size_t i = 0; i < g.dx.size(); ++i) g.dx[i] += dx.exact[i];
      rmsnorm_backward(context, shape, dy, x, w, inv_rms, dx, dw, true);
      check_close(text + " dx", dx.tensor, g.dx, tolerance(dtype));
      check_close(text + " dw", ConstView(dw), g.dweight, 1e-5);
      add_rmsnorm_forward(context, shape, x, dy, w, sum, y, inv_rms);
      Vector added = x.exact;
      for (std::size_t i = 0; i < added.size(); ++i) added[i] += dy.exact[i];
      check_close(text + " sum", sum, added, tolerance(dtype));
      check_close(text + " y of sum", y, reference::rmsnorm(tokens, hidden, 1e-5, exact_of(sum), w.exact),
                  tolerance(dtype));
    }
  });
}

TEST_CASE("rmsnorm in bf16 casts before it multiplies by the weight, like Hugging Face's Llama") {
  const ComputeContext context;
  Values x = random_values(DType::bf16, 64, 9), w = random_values(DType::bf16, 64, 10);
  Tensor y(DType::bf16, {64});
  rmsnorm_forward(context, {1, 64, 1e-6F}, x, w, y, {});
  double squares = 0.0;
  for (double value : x.exact) squares += value * value;
  const float r = static_cast<float>(1.0 / std::sqrt(squares / 64.0 + 1e-6));
  for (std::size_t i = 0; i < 64; ++i) {
    const bf16 normed(static_cast<float>(x.exact[i]) * r);
    const bf16 want(static_cast<float>(normed) * static_cast<float>(w.exact[i]));
    CHECK(y.span<bf16>()[i].bits == want.bits);
  }
}

TEST_CASE("rope: tables, positions, slices, and the inverse rotation") {
  rows_for_all([](DType dtype, Backend level) {
    const OpContext context(2, level);
    const Index tokens = 9, heads = 3, d = 22, stride = 80;
    const RopeTable table = make_rope_table(64, d, 10000.0);
    const std::vector<float> f32 = rope_frequencies(d, 10000.0);
    const Vector frequencies(f32.begin(), f32.end());
    const reference::Ids positions = random_ids(tokens, 64, 3);
    Values x = random_values(dtype, tokens * stride, 77);
    Vector tight;
    for (Index t = 0; t < tokens; ++t) {
      for (Index i = 0; i < heads * d; ++i) tight.push_back(x.exact[static_cast<std::size_t>(t * stride + i)]);
    }
    const Vector rotated = reference::rope(tokens, heads, d, frequencies, positions, tight, false);
    Vector want = x.exact;
    for (Index t = 0; t < tokens; ++t) {
      for (Index i = 0; i < heads * d; ++i) {
        want[static_cast<std::size_t>(t * stride + i)] = rotated[static_cast<std::size_t>(t * heads * d + i)];
      }
    }
    const RopeShape shape{tokens, heads, d, stride};
    rope_apply(context, shape, table, positions, 0, x);
    check_close(case_text("rope", dtype, level, 77), x.tensor, want, 2.0 * tolerance(dtype));
    rope_apply(context, shape, table, positions, 0, x, true);
    check_close("rope back", x.tensor, x.exact, 2.0 * tolerance(dtype));
  });
}

TEST_CASE("rope scaling of Llama 3.1: long waves divided, short ones alone, between them blended") {
  RopeScaling scaling{RopeScaling::Kind::llama3, 8.0, 1.0, 4.0, 8192};
  const auto plain = rope_frequencies(128, 500000.0), scaled = rope_frequencies(128, 500000.0, scaling);
  CHECK(scaled[0] == plain[0]);
  CHECK(scaled[63] == doctest::Approx(plain[63] / 8.0).epsilon(1e-6));
  bool blended = false;
  for (std::size_t j = 0; j < 64; ++j) {
    const float ratio = plain[j] / scaled[j];
    CHECK(ratio >= 0.999999F);
    CHECK(ratio <= 8.00001F);
    blended = blended || (ratio > 1.01F && ratio < 7.9F);
  }
  CHECK(blended);
  scaling = {RopeScaling::Kind::linear, 4.0, 1.0, 4.0, 8192};
  CHECK(rope_frequencies(128, 500000.0, scaling)[5] == doctest::Approx(plain[5] / 4.0).epsilon(1e-6));
}

TEST_CASE("swiglu forward and backward, tight and in one tensor of gate and up") {
  rows_for_all([](DType dtype, Backend level) {
    const OpContext context(2, level);
    const Index tokens = 21, ffn = 43;
    const Values both = random_values(dtype, tokens * 2 * ffn, 300, 3.0),
                 dout = random_values(dtype, tokens * ffn, 301);
    Tensor out(dtype, {tokens * ffn}), gradient(dtype, {tokens * 2 * ffn});
    Vector gate, up;
    for (Index t = 0; t < tokens; ++t) {
      const auto row = both.exact.begin() + t * 2 * ffn;
      gate.insert(gate.end(), row, row + ffn);
      up.insert(up.end(), row + ffn, row + 2 * ffn);
    }
    const auto at = [&](auto view, Index from) {
      using V = decltype(view);
      if (dtype == DType::f32) return V(view.template as<float>() + from, Shape{view.size() - from});
      return V(view.template as<bf16>() + from, Shape{view.size() - from});
    };
    const SwiGluShape shape{tokens, ffn, 2 * ffn};
    const ConstView input = both;
    View result = gradient;
    swiglu_forward(context, shape, input, at(input, ffn), out);
    check_close(case_text("swiglu", dtype, level, 300), out, reference::swiglu(gate, up), tolerance(dtype));
    swiglu_backward(context, shape, dout, input, at(input, ffn), result, at(result, ffn));
    const auto g = reference::swiglu_backward(dout.exact, gate, up);
    Vector want;
    for (Index t = 0; t < tokens; ++t) {
      want.insert(want.end(), g.dgate.begin() + t * ffn, g.dgate.begin() + (t + 1) * ffn);
      want.insert(want.end(), g.dup.begin() + t * ffn, g.dup.begin() + (t + 1) * ffn);
    }
    check_close(case_text("swiglu backward", dtype, level, 300), gradient, want, tolerance(dtype));

    // Named by their common tensor, which may have a row more, they are the same bits.
    Tensor rows(dtype, {tokens + 1, 2 * ffn}), again(dtype, {tokens, ffn}), both_again(dtype, {tokens + 1, 2 * ffn});
    const auto bytes = static_cast<std::size_t>(gradient.view().bytes());
    std::memcpy(rows.view().data(), input.data(), bytes);
    swiglu_forward(context, rows, again);
    CHECK(std::memcmp(again.view().data(), out.view().data(), static_cast<std::size_t>(out.view().bytes())) == 0);
    const ConstView dout_view = dout;
    Tensor dout_rows(dtype, {tokens, ffn});
    std::memcpy(dout_rows.view().data(), dout_view.data(), static_cast<std::size_t>(dout_view.bytes()));
    swiglu_backward(context, dout_rows, rows, both_again);
    CHECK(std::memcmp(both_again.view().data(), gradient.view().data(), bytes) == 0);
  });
}

TEST_CASE("embedding copies rows, and its gradient sums repeated ids") {
  rows_for_all([](DType dtype, Backend level) {
    const OpContext context(2, level);
    const EmbeddingShape shape{200, 31, 133};
    const reference::Ids ids = random_ids(200, 31, 5);
    const Values table = random_values(dtype, 31 * 133, 6), dout = random_values(dtype, 200 * 133, 7);
    Tensor out(dtype, {200, 133}), gradient(DType::f32, {31, 133});
    embedding_forward(context, shape, ids, table, out);
    CHECK(exact_of(out) == reference::embedding(133, ids, table.exact));
    embedding_backward(context, shape, ids, dout, gradient.span<float>());
    check_close("embedding", gradient, reference::embedding_backward(31, 133, ids, dout.exact), tolerance(DType::f32));
  });
}

TEST_CASE("cross-entropy: loss, weighted gradient, masked tokens, ignored targets, in place") {
  rows_for_all([](DType dtype, Backend level) {
    for (Index vocab : {5, 97, 5003}) {
      const OpContext context(2, level);
      const Index tokens = 19;
      Values z = random_values(dtype, tokens * vocab, 400, 4.0);
      reference::Ids targets = random_ids(tokens, vocab, 401);
      targets[3] = -1;
      std::vector<float> weights(static_cast<std::size_t>(tokens), 0.25F), loss(weights.size()), only(weights.size());
      weights[5] = 0.0F;
      weights[6] = -2.0F;
      const Vector w(weights.begin(), weights.end());
      const std::string text = case_text(format("cross-entropy vocab={}", vocab), dtype, level, 400);
      cross_entropy_forward(context, {tokens, vocab}, z, targets, only);
      cross_entropy_forward_backward(context, {tokens, vocab}, z, targets, weights, loss, z);
      check_close(text + " loss", ConstView(loss), reference::cross_entropy(vocab, z.exact, targets), 1e-6);
      CHECK(only == loss);
      check_close(text + " dz", z.tensor, reference::cross_entropy_backward(vocab, z.exact, targets, w),
                  tolerance(dtype));
    }
  });
}

TEST_CASE("the output layer in chunks equals the output layer at once") {
  rows_for_all([](DType dtype, Backend level) {
    const OpContext context(2, level);
    const Index tokens = 83, hidden = 48, vocab = 211;
    const Values x = random_values(dtype, tokens * hidden, 1), w = random_values(dtype, vocab * hidden, 2, 0.2);
    reference::Ids targets = random_ids(tokens, vocab, 3);
    targets[7] = -1;
    std::vector<float> weights(static_cast<std::size_t>(tokens), 1.0F / 80.0F), loss(weights.size()),
        only(weights.size());
    Tensor dx(dtype, {tokens, hidden}), dw(DType::f32, {vocab, hidden});
    const LmHeadShape shape{tokens, hidden, vocab, 32};
    lm_head_loss(context, shape, x, w, targets, weights, loss, dx, dw);
    lm_head_loss(context, shape, x, w, targets, {}, only, {}, {});
    const Vector z = reference::linear(tokens, hidden, vocab, x.exact, w.exact, {});
    const Vector dz = reference::cross_entropy_backward(vocab, z, targets, Vector(weights.begin(), weights.end()));
    const auto g = reference::linear_backward(tokens, hidden, vocab, dz, x.exact, w.exact);
    const std::string text = case_text("lm head", dtype, level, 1);
    // A GPU keeps a chunk's logits in the type of x.
    check_close(text + " loss", ConstView(loss), reference::cross_entropy(vocab, z, targets),
                level.gpu && dtype == DType::bf16 ? tolerance(dtype) : 2e-6);
    CHECK(only == loss);
    check_close(text + " dx", dx, g.dx, 2.0 * tolerance(dtype));
    check_close(text + " dw", dw, g.dweight, tolerance(dtype));
    LmHeadShape overwriting = shape;
    overwriting.accumulate = false;
    Tensor written(DType::f32, {vocab, hidden});
    fill(context, written, 99.0F);
    lm_head_loss(context, overwriting, x, w, targets, weights, loss, dx, written);
    CHECK(exact_of(written) == exact_of(dw));
  });
}

TEST_CASE("adamw follows the paper over several steps and writes the compute copy") {
  for (const Backend& level : kBackends) {
    const OpContext context(2, level);
    const Index n = 1003;
    Values p = random_values(DType::f32, n, 1);
    std::vector<float> m(static_cast<std::size_t>(n)), v(m.size());
    reference::AdamWState want{p.exact, Vector(m.size()), Vector(m.size())};
    Tensor copy(DType::bf16, {n});
    for (Index step = 1; step <= 5; ++step) {
      const Values g = random_values(DType::f32, n, 10 + static_cast<std::uint64_t>(step));
      Vector halved = g.exact;
      for (double& value : halved) value *= 0.5;
      want = reference::adamw(want, halved, 1e-2, 0.9, 0.95, 1e-8, 0.1, step);
      adamw_update(context, {1e-2, 0.9, 0.95, 1e-8, 0.1, step, 0.5F}, p.tensor.span<float>(), m, v,
                   g.tensor.span<float>(), copy);
    }
    check_close("p", p.tensor, want.p, 1e-6);
    check_close("m", ConstView(m), want.m, 1e-6);
    check_close("v", ConstView(v), want.v, 1e-6);
    for (std::size_t i = 0; i < m.size(); ++i) REQUIRE(copy.span<bf16>()[i] == bf16(p.tensor.span<float>()[i]));
  }
}

TEST_CASE("adamw updates one weight as it does many, and copies them, in whatever blocks threads take them") {
  for (const Index n : {Index{1}, Index{20'000}})
    for (const int threads : {1, 2})
      for (const DType dtype : {DType::f32, DType::bf16}) {
        CAPTURE(n);
        CAPTURE(threads);
        CAPTURE(dtype_name(dtype));
        std::vector<float> p(static_cast<std::size_t>(n), 1.0F), m(p.size()), v(p.size());
        const std::vector<float> g(p.size(), 0.5F);
        Tensor copy(dtype, {n});
        adamw_update(ComputeContext(threads), {1e-2, 0.9, 0.95, 1e-8, 0, 1, 1.0F}, p, m, v, g, copy);
        // Of the first step the corrected moments are g and g^2: each weight goes back by the rate.
        int wrong = 0;
        for (std::size_t i = 0; i < p.size(); ++i) {
          const bool copied = dtype == DType::f32 ? copy.span<float>()[i] == p[i] : copy.span<bf16>()[i] == bf16(p[i]);
          wrong += !copied || std::abs(p[i] - 0.99F) > 1e-6F;
        }
        CHECK(wrong == 0);
      }
}

TEST_CASE("flat arrays: sums, norms with the same bits for every thread count, casts, finite or not") {
  const Index n = 200'003;
  const Values x = random_values(DType::f32, n, 8);
  const ComputeContext one(1), two(2), four(4);
  const auto span = x.tensor.span<float>();
  double want = 0.0;
  for (double value : x.exact) want += value * value;
  CHECK(sum_of_squares(one, span) == doctest::Approx(want).epsilon(1e-12));
  CHECK(sum_of_squares(one, span) == sum_of_squares(two, span));
  CHECK(sum(two, span) == sum(four, span));
  CHECK(!any_not_finite(two, span));
  std::vector<float> y(span.begin(), span.end());
  y[123'456] = std::numeric_limits<float>::infinity();
  CHECK(any_not_finite(two, y));
  y.assign(span.begin(), span.end());
  axpy(two, 2.0F, span, y);
  scale(two, 0.5F, y);
  CHECK(y[77] == doctest::Approx(1.5F * span[77]));
  Tensor narrow(DType::bf16, {n}), wide(DType::f32, {n});
  cast(two, x, narrow);
  cast(two, narrow, wide);
  for (std::size_t i = 0; i < 1000; ++i) REQUIRE(wide.span<float>()[i] == static_cast<float>(bf16(span[i])));
  add(two, x, x, wide);
  CHECK(wide.span<float>()[9] == 2.0F * span[9]);
  CHECK(clip_scale(2.0, 1.0) == doctest::Approx(0.5F));
  CHECK(clip_scale(0.5, 1.0) == 1.0F);
  CHECK(clip_scale(5.0, 0.0) == 1.0F);
}

TEST_CASE("sums of squares of several parts at once have the bits of each alone, on every backend") {
  for (const auto& [n, level] : with_backends({1, 1003, 70'001})) {
    const OpContext context(2, level);
    CAPTURE(n);
    const Values x = random_values(DType::f32, n, 18);
    const std::span<const float> all = x.tensor.span<float>();
    const std::size_t third =
        all.size() / 3;  // parts begin anywhere, each alone at a multiple of 256 bytes on a device
    const std::vector<std::span<const float>> parts = {all, all.first(third), {}, all.subspan(third), all.last(1)};
    std::vector<double> sums(parts.size(), -1.0);
    sums_of_squares(context, parts, sums);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      CAPTURE(i);
      CHECK(sums[i] == (parts[i].empty() ? 0.0 : sum_of_squares(context, parts[i])));
    }
  }
}

TEST_CASE("sums over an array have the same bits wherever it begins, on every backend") {
  for (const auto& [n, level] : with_backends({1, 5, 1003, 70'001, 140'000})) {
    const OpContext context(2, level);
    CAPTURE(n);
    const Values x = random_values(DType::f32, n, 21);
    const auto values = x.tensor.span<float>();
    const double total = sum(context, values), squares = sum_of_squares(context, values);
    // Together with what lies before it an array keeps its place in the memory of a device.
    for (const std::size_t shift : {1U, 2U, 3U, 4U}) {
      CAPTURE(shift);
      Tensor room(DType::f32, {n + 4});
      const std::span<float> all = room.span<float>(), there = all.subspan(shift, values.size());
      std::ranges::copy(values, there.begin());
      const std::vector<std::span<const float>> parts = {all, there};
      std::vector<double> sums(2);
      sums_of_squares(context, parts, sums);
      CHECK(sums[1] == squares);
      CHECK(sum(context, there) == total);
      CHECK(!any_not_finite(context, there));
    }
  }
}

TEST_CASE("flat arrays on every backend: sums in f64, what is not finite, axpy, scale, add, casts") {
  for (const auto& [n, level] : with_backends({1, 1003, 70'001})) {
    const OpContext context(2, level);
    CAPTURE(n);
    Values x = random_values(DType::f32, n, 8), y = random_values(DType::f32, n, 9);
    const auto span = x.tensor.span<float>();
    double want = 0.0, squares = 0.0;
    for (double value : x.exact) want += value, squares += value * value;
    CHECK(sum(context, span) == doctest::Approx(want).epsilon(1e-9));
    CHECK(sum_of_squares(context, span) == doctest::Approx(squares).epsilon(1e-9));
    CHECK(!any_not_finite(context, span));
    Vector combined, doubled;
    for (std::size_t i = 0; i < x.exact.size(); ++i)
      combined.push_back(0.5 * (y.exact[i] + 2.0 * x.exact[i])), doubled.push_back(2.0 * x.exact[i]);
    axpy(context, 2.0F, span, y.tensor.span<float>());
    scale(context, 0.5F, y.tensor.span<float>());
    check_close("axpy, scale", y.tensor, combined, tolerance(DType::f32));
    Tensor narrow(DType::bf16, {n}), wide(DType::f32, {n});
    cast(context, x, narrow);
    cast(context, narrow, wide);
    for (std::size_t i = 0; i < x.exact.size(); ++i)
      REQUIRE(wide.span<float>()[i] == static_cast<float>(bf16(span[i])));
    add(context, x, x, wide);
    CHECK(exact_of(wide) == doubled);
    span.back() = std::numeric_limits<float>::infinity();
    CHECK(any_not_finite(context, span));
  }
}

TEST_CASE("NaN is never swallowed: exponential, loss, attention") {
  rows_for_all([](DType dtype, Backend level) {
    const OpContext context(1, level);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const float x[] = {0.0F, nan};
    float y[2];
    cpu::kernels(context).exp_array(x, y, 2);
    CHECK(std::isnan(y[1]));
    const auto poison = [&](Values& values, std::size_t i) {
      if (dtype == DType::f32) {
        values.tensor.span<float>()[i] = nan;
      } else {
        values.tensor.span<bf16>()[i] = bf16(nan);
      }
    };
    for (std::size_t at : {0U, 17U, 99U}) {
      CAPTURE(at);
      Values z = random_values(dtype, 100, 1);
      poison(z, at);
      std::vector<float> loss(1);
      cross_entropy_forward(context, {1, 100}, z, std::vector<std::int32_t>{3}, loss);
      CHECK(std::isnan(loss[0]));
      Values k = random_values(dtype, 100 * 16, 2), q = random_values(dtype, 100 * 16, 3);
      poison(k, at * 16);
      Tensor out(dtype, {100 * 16});
      const AttentionShape shape{.batch = 1, .seq = 100, .heads = 1, .kv_heads = 1, .head_dim = 16};
      attention_forward(context, shape, q, k, q, out, {});
      CHECK(std::isnan(exact_of(out)[99 * 16]));
    }
  });
}

TEST_CASE("softmax of rows") {
  rows_for_all([](DType dtype, Backend level) {
    const OpContext context(2, level);
    const Values z = random_values(dtype, 7 * 133, 12, 5.0);
    std::vector<float> p(7 * 133);
    softmax_rows(context, 7, 133, z, 0.7F, p);
    check_close("softmax", ConstView(p), reference::softmax(133, z.exact, 0.7), 2e-6);
  });
}
