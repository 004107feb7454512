// Layer normalisation, GELU and the biases of linear layers against the reference, on odd sizes.
#include <array>
#include <limits>

#include "engine/ops/pointwise/elementwise.h"
#include "engine/ops/pointwise/gelu.h"
#include "engine/ops/pointwise/layernorm.h"
#include "tests/unit/engine/ops/op_check.h"

using namespace longhaul;
using namespace longhaul::op_check;

namespace {

template <class F>
void layernorm_for_all(const F& fn) {
  for (DType dtype : kTypes) {
    for (const Backend& level : kBackends) fn(dtype, level);
  }
}

}  // namespace

TEST_CASE("layernorm forward, backward, accumulation, and residual with bias in one pass") {
  layernorm_for_all([](DType dtype, Backend level) {
    for (const auto& [tokens, hidden] : {std::array<Index, 2>{1, 3}, {150, 67}, {33, 256}}) {
      const OpContext context(2, level);
      const std::uint64_t seed = 210;
      const LayerNormShape shape{tokens, hidden, 1e-5F};
      const Index n = tokens * hidden;
      Values x = random_values(dtype, n, seed), w = random_values(dtype, hidden, seed + 1),
             b = random_values(dtype, hidden, seed + 2), dy = random_values(dtype, n, seed + 3),
             column = random_values(dtype, hidden, seed + 4);
      Tensor y(dtype, {n}), sum(dtype, {n});
      Values dx = random_values(dtype, n, seed + 5);
      std::vector<float> statistics(static_cast<std::size_t>(2 * tokens)), dw(static_cast<std::size_t>(hidden), 1.0F),
          db(dw.size(), 2.0F);
      const std::string text = case_text(format("layernorm t={} h={}", tokens, hidden), dtype, level, seed);
      layernorm_forward(context, shape, x, w, b, y, statistics);
      check_close(text + " y", y, reference::layernorm(tokens, hidden, 1e-5, x.exact, w.exact, b.exact),
                  tolerance(dtype));
      auto g = reference::layernorm_backward(tokens, hidden, 1e-5, dy.exact, x.exact, w.exact);
      for (double& value : g.dweight) value += 1.0;
      for (double& value : g.dbias) value += 2.0;
      for (std::size_t i = 0; i < g.dx.size(); ++i) g.dx[i] += dx.exact[i];
      layernorm_backward(context, shape, dy, x, w, statistics, dx, dw, db, true);
      check_close(text + " dx", dx.tensor, g.dx, tolerance(dtype));
      check_close(text + " dw", ConstView(dw), g.dweight, 1e-5);
      check_close(text + " db", ConstView(db), g.dbias, 1e-5);
      for (const bool with_column : {true, false}) {
        add_layernorm_forward(context, shape, x, dy, with_column ? ConstView(column) : ConstView(), w, b, sum, y,
                              statistics);
        Vector added = x.exact;
        for (std::size_t i = 0; i < added.size(); ++i)
          added[i] += dy.exact[i] + (with_column ? column.exact[i % static_cast<std::size_t>(hidden)] : 0.0);
        check_close(text + " sum", sum, added, tolerance(dtype));
        check_close(text + " y of sum", y, reference::layernorm(tokens, hidden, 1e-5, exact_of(sum), w.exact, b.exact),
                    tolerance(dtype));
      }
    }
  });
}

TEST_CASE("layernorm of a row far from zero keeps its digits") {
  // The variance comes from the distances to the mean: E[x^2] - E[x]^2 in f32 would be noise here.
  layernorm_for_all([](DType dtype, Backend level) {
    if (dtype != DType::f32) return;
    const OpContext context(1, level);
    Values x = random_values(dtype, 100, 5);
    for (std::size_t i = 0; i < 100; ++i) x.tensor.span<float>()[i] += 4096.0F;
    x.exact = exact_of(x.tensor);
    Tensor w(dtype, {100}), b(dtype, {100}), y(dtype, {100});
    fill(context, w, 1.0F);
    fill(context, b, 0.0F);
    layernorm_forward(context, {1, 100, 1e-5F}, x, w, b, y, {});
    check_close("y", y, reference::layernorm(1, 100, 1e-5, x.exact, exact_of(w), exact_of(b)), 3e-4);
  });
}

TEST_CASE("gelu and its gradient, in place too, far tails included") {
  layernorm_for_all([](DType dtype, Backend level) {
    const OpContext context(2, level);
    const Index n = 20011;
    Values x = random_values(dtype, n, 31, 2.5), dy = random_values(dtype, n, 32);
    Tensor y(dtype, {n}), dx(dtype, {n});
    const std::string text = case_text("gelu", dtype, level, 31);
    gelu_forward(context, x, y);
    check_close(text + " y", y, reference::gelu(x.exact), tolerance(dtype));
    gelu_backward(context, dy, x, dx);
    check_close(text + " dx", dx, reference::gelu_backward(dy.exact, x.exact), tolerance(dtype));
    gelu_forward(context, x, x);
    CHECK(exact_of(x.tensor) == exact_of(y));
    const float far[] = {-1e4F, -60.0F, 0.0F, 60.0F, 1e4F};
    float out[5], slopes[5];
    const float ones[] = {1.0F, 1.0F, 1.0F, 1.0F, 1.0F};
    gelu_forward(context, ConstView(far, Shape{5}), View(out, Shape{5}));
    gelu_backward(context, ConstView(ones, Shape{5}), ConstView(far, Shape{5}), View(slopes, Shape{5}));
    const float want[] = {0.0F, 0.0F, 0.0F, 60.0F, 1e4F}, want_slopes[] = {0.0F, 0.0F, 0.5F, 1.0F, 1.0F};
    for (int i = 0; i < 5; ++i) {
      CHECK(std::abs(out[i] - want[i]) <= 1e-25F);
      CHECK(std::abs(slopes[i] - want_slopes[i]) <= 1e-25F);
    }
  });
}
