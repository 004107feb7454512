// Which of the two kinds of kernel a grouped product takes, and that a result does not depend on what lies around it.
#ifndef __SANITIZE_ADDRESS__  // which does not know the stacks of the emulation's fibers
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "engine/ops/cuda/experts/grouped_linear_kernels.h"
#include "engine/ops/cuda/experts/tensor_grouped_kernels.h"

using namespace longhaul;
using namespace longhaul::cuda;

TEST_CASE("bf16 in widths of eights and at multiples of 16 bytes goes through the tensor cores, nothing else does") {
  alignas(16) static bf16 memory[64];
  const GroupedProduct<bf16, bf16> good{4, 2, 24, 40, nullptr, memory, memory, memory};
  CHECK(tensor_grouped_knows(good));
  GroupedProduct<bf16, bf16> bad = good;
  bad.n = 20;
  CHECK_FALSE(tensor_grouped_knows(bad));
  bad = good, bad.k = 36;
  CHECK_FALSE(tensor_grouped_knows(bad));
  bad = good, bad.weights = memory + 4;
  CHECK_FALSE(tensor_grouped_knows(bad));
  alignas(16) static float gradient[4];
  const GroupedWeightGradient<bf16> weights{2, 24, 40, true, nullptr, memory, memory, gradient};
  CHECK(tensor_grouped_knows(weights));
  GroupedWeightGradient<bf16> odd = weights;
  odd.out = 41;
  CHECK_FALSE(tensor_grouped_knows(odd));
  odd = weights, odd.dy = memory + 1;
  CHECK_FALSE(tensor_grouped_knows(odd));
}

TEST_CASE("rows behind the last expert are neither read nor written, even if they hold no numbers") {
  constexpr Index rows = 21, used = 13, experts = 3, in = 16, out = 24;
  std::vector<std::int64_t> offsets = {0, 5, 5, used};
  for (const Index width : {in, in - 1}) {  // both kinds of kernel
    CAPTURE(width);
    std::vector<bf16> x(rows * in, bf16(NAN)), w(experts * in * out, bf16(0.25F)), y(rows * out, bf16(7.0F)),
        dy(rows * out, bf16(NAN));
    for (Index i = 0; i < used * in; ++i) x[static_cast<std::size_t>(i)] = bf16(1.0F);
    for (Index i = 0; i < used * out; ++i) dy[static_cast<std::size_t>(i)] = bf16(2.0F);
    grouped_product<bf16, bf16>(nullptr, true,
                                {rows, experts, out, width, offsets.data(), x.data(), w.data(), y.data()});
    for (Index i = 0; i < rows * out; ++i)
      REQUIRE(static_cast<float>(y[static_cast<std::size_t>(i)]) ==
              (i < used * out ? 0.25F * static_cast<float>(width) : 7.0F));
    std::vector<float> dw(experts * in * out, 1.0F);
    grouped_weight_gradient<bf16>(nullptr, {experts, width, out, true, offsets.data(), dy.data(), x.data(), dw.data()});
    const float want[] = {1.0F + 2.0F * 5, 1.0F, 1.0F + 2.0F * 8};
    for (Index i = 0; i < experts * out * width; ++i)
      REQUIRE(dw[static_cast<std::size_t>(i)] == want[i / (out * width)]);
  }
}
#endif
