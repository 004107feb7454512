// Rows of logits that shared memory holds, or holds the beginning of, on the emulated GPU against the f64 reference.
#ifndef __SANITIZE_ADDRESS__  // which does not know the stacks of the emulation's fibers
#include "engine/ops/cuda/loss/loss_kernels.h"

#include <array>

#include "base/text/text.h"
#include "tests/unit/engine/ops/op_check.h"

using namespace longhaul;
using namespace longhaul::op_check;

namespace {

template <class T>
void check_cross_entropy(Index vocab, Index stride) {
  const DType dtype = DTypeOf<T>::value;
  constexpr Index tokens = 3, pack = 16 / static_cast<Index>(sizeof(T));
  INFO("vocab ", vocab, " stride ", stride, " ", dtype_name(dtype));
  Values z = random_values(dtype, tokens * stride, 77, 4.0);
  Vector exact;
  for (Index t = 0; t < tokens; ++t) {
    const auto row = z.exact.begin() + t * stride;
    exact.insert(exact.end(), row, row + vocab);
  }
  // Behind a row lies what counts for nothing.
  for (Index t = 0; t < tokens; ++t)
    for (Index i = vocab; i < stride; ++i) z.tensor.span<T>()[static_cast<std::size_t>(t * stride + i)] = T(1e30F);
  const reference::Ids targets = {static_cast<std::int32_t>(vocab - 1), -1, 5};
  const std::vector<float> weights = {0.5F, 1.0F, -2.0F};
  std::vector<float> loss(tokens), only(tokens);
  T* const logits = z.tensor.span<T>().data();
  cuda::cross_entropy<T>({}, {tokens, vocab, stride, logits, targets.data(), nullptr, only.data(), nullptr});
  cuda::cross_entropy<T>({}, {tokens, vocab, stride, logits, targets.data(), weights.data(), loss.data(), logits});
  check_close("loss", ConstView(loss), reference::cross_entropy(vocab, exact, targets), 1e-6);
  CHECK(only == loss);
  const Vector got = exact_of(z.tensor);
  Vector rows;
  for (Index t = 0; t < tokens; ++t) {
    const auto row = got.begin() + t * stride;
    rows.insert(rows.end(), row, row + vocab);
    // In whole packs: of the last one what is behind the row is zero.
    for (Index i = vocab; i < (vocab + pack - 1) / pack * pack; ++i)
      CHECK(got[static_cast<std::size_t>(t * stride + i)] == 0.0);
  }
  const Vector want = reference::cross_entropy_backward(vocab, exact, targets, Vector(weights.begin(), weights.end()));
  const double error = normalised_error(rows, want);
  CAPTURE(error);
  CHECK(error <= tolerance(dtype));
}

}  // namespace

TEST_CASE("cross-entropy of rows in whole packs, padded ones, and rows longer than shared memory") {
  for (const auto& [vocab, stride] : {std::array<Index, 2>{1000, 1000}, {1003, 1016}}) {
    check_cross_entropy<float>(vocab, stride);
    check_cross_entropy<bf16>(vocab, stride);
  }
  check_cross_entropy<float>(43001, 43008);
  check_cross_entropy<bf16>(90000, 90000);
}
#endif
