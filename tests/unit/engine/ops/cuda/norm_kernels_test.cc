// The kernels of the GPU, run on the processor (tests/support/emulated_gpu/cuda_emulation.h), against the f64
// reference.
#ifndef __SANITIZE_ADDRESS__  // which does not know the stacks of the emulation's fibers
#include "engine/ops/cuda/pointwise/norm_kernels.h"

#include <array>

#include "engine/ops/cuda/pointwise/norm_backward.h"
#include "tests/unit/engine/ops/op_check.h"

using namespace longhaul;
using namespace longhaul::op_check;

namespace {

template <class T>
void check_rmsnorm(Index tokens, Index hidden, bool shifted) {
  const DType dtype = DTypeOf<T>::value;
  const std::uint64_t seed = 200;
  const Index n = tokens * hidden, shift = shifted ? 1 : 0;
  INFO("tokens ", tokens, " hidden ", hidden, " ", dtype_name(dtype), " shifted ", shifted);
  const auto from = [&](const Values& v) { return v.tensor.view().template as<T>() + shift; };
  const auto exact = [&](const Values& v) { return Vector(v.exact.begin() + shift, v.exact.end()); };
  const Values x = random_values(dtype, n + shift, seed), w = random_values(dtype, hidden + shift, seed + 1),
               dy = random_values(dtype, n + shift, seed + 2), more = random_values(dtype, n + shift, seed + 3);
  Tensor y(dtype, {n + shift}), sum(dtype, {n + shift});
  std::vector<float> r(static_cast<std::size_t>(tokens));
  const auto part = [&](const Tensor& t) { return t.view().reshaped({n + shift}).rows(shift, n + shift); };
  cuda::rmsnorm_forward<T>(
      {}, {from(x), nullptr, from(w), nullptr, y.span<T>().data() + shift, r.data(), tokens, hidden, 1e-5F});
  check_close("y", part(y), reference::rmsnorm(tokens, hidden, 1e-5F, exact(x), exact(w)), tolerance(dtype));
  cuda::rmsnorm_forward<T>({}, {from(x), from(more), from(w), sum.span<T>().data() + shift, y.span<T>().data() + shift,
                                nullptr, tokens, hidden, 1e-5F});
  Vector added = exact(x);
  const Vector addend = exact(more);
  for (std::size_t i = 0; i < added.size(); ++i) added[i] += addend[i];
  check_close("sum", part(sum), added, tolerance(dtype));
  check_close("y of sum", part(y), reference::rmsnorm(tokens, hidden, 1e-5F, exact_of(part(sum)), exact(w)),
              tolerance(dtype));

  const auto want = reference::rmsnorm_backward(tokens, hidden, 1e-5F, exact(dy), exact(x), exact(w));
  Tensor dx(dtype, {n + shift}), dw(DType::f32, {hidden});
  std::vector<float> parts(static_cast<std::size_t>(cuda::norm_backward_blocks(tokens, hidden) * hidden), NAN);
  dw.span<float>()[0] = 3.0F;
  cuda::NormBackward<T> back{
      from(dy),     from(x), from(w), r.data(), dx.span<T>().data() + shift, dw.span<float>().data(), nullptr,
      parts.data(), tokens,  hidden,  false};
  cuda::norm_backward<T, false>({}, back);
  Vector dweight = want.dweight;
  dweight[0] += 3.0;
  check_close("dx", part(dx), want.dx, tolerance(dtype));
  check_close("dweight", dw, dweight, 2e-6);
  back.accumulate_dx = true, back.dweight = nullptr;
  cuda::norm_backward<T, false>({}, back);
  Vector twice = want.dx;
  for (double& v : twice) v *= 2.0;
  check_close("dx twice", part(dx), twice, tolerance(dtype));
  check_close("dweight left alone", dw, dweight, 2e-6);
}

}  // namespace

TEST_CASE("RMSNorm's kernels, forward, with the residual, and backward") {
  // Of one warp and of several; of several at once and in several turns of a block; longer than registers hold.
  for (const auto& [tokens, hidden] :
       {std::array<Index, 2>{1, 3}, {150, 67}, {300, 256}, {2, 4096}, {410, 520}, {2, 16392}})
    for (const bool shifted : {false, true}) {
      check_rmsnorm<float>(tokens, hidden, shifted);
      check_rmsnorm<bf16>(tokens, hidden, shifted);
    }
}
#endif
