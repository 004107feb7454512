// A linear layer with GELU in one, both ways, where it is fused and where it is not: the same reference.
#include "engine/ops/linear/linear_gelu.h"

#include "tests/unit/engine/ops/op_check.h"

using namespace longhaul;
using namespace longhaul::op_check;

TEST_CASE(
    "a linear layer and GELU in one follow the reference, with widths that a library fuses and that it does not") {
  for (const DType dtype : kTypes)
    for (const auto& [out, on] : with_backends({40, 37})) {
      const OpContext context(2, on);
      const Index tokens = 11, in = 24;
      const std::uint64_t seed = 700 + static_cast<std::uint64_t>(out);
      const Values x = random_values(dtype, tokens * in, seed), w = random_values(dtype, out * in, seed + 1, 0.3);
      const Values bias = random_values(dtype, out, seed + 2), dy = random_values(dtype, tokens * in, seed + 3);
      const Values w_back = random_values(dtype, in * out, seed + 4, 0.3);
      Tensor before(dtype, {tokens, out}), y(dtype, {tokens, out}), dx(dtype, {tokens, out});
      const std::string text = case_text(format("linear_gelu out={}", out), dtype, on, seed);
      linear_gelu_forward(context, {tokens, in, out}, x, w, bias, before, y);
      const Vector sum = reference::linear(tokens, in, out, x.exact, w.exact, bias.exact);
      check_close(text + " before", before, sum, 1.5 * tolerance(dtype));
      check_close(text + " y", y, reference::gelu(sum), 2.5 * library_tolerance(dtype));
      // dy [tokens, in] of a layer with `out` inputs behind the GELU.
      linear_gelu_backward(context, {tokens, out, in}, dy, w_back, before, dx);
      const Vector product = reference::gemm(tokens, out, in, false, false, 1.0, dy.exact, w_back.exact, 0.0, {});
      check_close(text + " dx", dx, reference::gelu_backward(product, exact_of(before)),
                  2.5 * library_tolerance(dtype));
    }
}
