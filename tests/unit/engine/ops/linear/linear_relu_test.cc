// A linear layer with relu behind it, both ways.
#include "engine/ops/linear/linear_relu.h"

#include "tests/unit/engine/ops/op_check.h"

using namespace longhaul;
using namespace longhaul::op_check;

TEST_CASE("a linear layer and relu give what is above 0, and its gradient there") {
  for (const auto& [out, on] : with_backends({40, 37}))
    for (const Index tokens : {3, 11}) {
      const OpContext context(2, on);
      const Index in = 24;
      const std::uint64_t seed = 800 + static_cast<std::uint64_t>(out);
      const Values x = random_values(DType::f32, tokens * in, seed), w = random_values(DType::f32, out * in, seed + 1);
      const Values bias = random_values(DType::f32, out, seed + 2);
      const Values dy = random_values(DType::f32, tokens * in, seed + 3);
      const Values w_back = random_values(DType::f32, in * out, seed + 4);
      Tensor y(DType::f32, {tokens, out}), dx(DType::f32, {tokens, out});
      const std::string text = case_text(format("linear_relu out={} tokens={}", out, tokens), DType::f32, on, seed);
      linear_relu_forward(context, {tokens, in, out}, x, w, bias, y);
      // dy [tokens, in] of a layer with `out` inputs behind it.
      linear_relu_backward(context, {tokens, out, in}, dy, w_back, y, dx);
      Vector sum = reference::linear(tokens, in, out, x.exact, w.exact, bias.exact);
      Vector slope = reference::gemm(tokens, out, in, false, false, 1.0, dy.exact, w_back.exact, 0.0, {});
      for (std::size_t i = 0; i < sum.size(); ++i) {
        if (exact_of(y)[i] <= 0) slope[i] = 0.0;
        sum[i] = std::max(0.0, sum[i]);
      }
      check_close(text + " y", y, sum, tolerance(DType::f32));
      check_close(text + " dx", dx, slope, tolerance(DType::f32));
      CHECK(std::ranges::count(exact_of(y), 0.0) > 0);
    }
}
