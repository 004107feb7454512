// The reference is held against itself: analytic gradients against finite differences of the forward pass.
#include "tests/support/reference/reference.h"

#include "tests/unit/engine/ops/op_check.h"

using namespace longhaul;
using namespace longhaul::op_check;

namespace {
Vector reference_normal(Index n, std::uint64_t seed) {
  return random_values(DType::f32, n, seed).exact;
}
}  // namespace

TEST_CASE("reference gradients agree with finite differences: linear, norm, rope, swiglu, embedding") {
  for (std::uint64_t seed : {1, 2}) {
    CAPTURE(seed);
    const Vector x = reference_normal(5 * 7, seed), w = reference_normal(3 * 7, seed + 10),
                 b = reference_normal(3, seed + 20);
    const Vector c = reference_normal(5 * 3, seed + 30);
    const auto g = reference::linear_backward(5, 7, 3, c, x, w);
    check_gradient("linear dx", [&](const Vector& v) { return reference::linear(5, 7, 3, v, w, b); }, x, c, g.dx, seed);
    check_gradient(
        "linear dw", [&](const Vector& v) { return reference::linear(5, 7, 3, x, v, b); }, w, c, g.dweight, seed);
    check_gradient(
        "linear db", [&](const Vector& v) { return reference::linear(5, 7, 3, x, w, v); }, b, c, g.dbias, seed);

    const Vector nw = reference_normal(7, seed + 40), nc = reference_normal(35, seed + 50);
    const auto n = reference::rmsnorm_backward(5, 7, 1e-5, nc, x, nw);
    check_gradient(
        "rmsnorm dx", [&](const Vector& v) { return reference::rmsnorm(5, 7, 1e-5, v, nw); }, x, nc, n.dx, seed);
    check_gradient(
        "rmsnorm dw", [&](const Vector& v) { return reference::rmsnorm(5, 7, 1e-5, x, v); }, nw, nc, n.dweight, seed);

    const Vector nb = reference_normal(7, seed + 41);
    const auto ln = reference::layernorm_backward(5, 7, 1e-5, nc, x, nw);
    check_gradient(
        "layernorm dx", [&](const Vector& v) { return reference::layernorm(5, 7, 1e-5, v, nw, nb); }, x, nc, ln.dx,
        seed);
    check_gradient(
        "layernorm dw", [&](const Vector& v) { return reference::layernorm(5, 7, 1e-5, x, v, nb); }, nw, nc, ln.dweight,
        seed);
    check_gradient(
        "layernorm db", [&](const Vector& v) { return reference::layernorm(5, 7, 1e-5, x, nw, v); }, nb, nc, ln.dbias,
        seed);
    check_gradient(
        "gelu dx", [&](const Vector& v) { return reference::gelu(v); }, x, nc, reference::gelu_backward(nc, x), seed);

    const Vector rx = reference_normal(3 * 2 * 6, seed + 60), rc = reference_normal(36, seed + 61),
                 f = {1.0, 0.3, 0.07};
    const reference::Ids positions = {0, 4, 9};
    check_gradient(
        "rope dx", [&](const Vector& v) { return reference::rope(3, 2, 6, f, positions, v, false); }, rx, rc,
        reference::rope(3, 2, 6, f, positions, rc, true), seed);

    const Vector up = reference_normal(35, seed + 70);
    const auto s = reference::swiglu_backward(nc, x, up);
    check_gradient("swiglu dgate", [&](const Vector& v) { return reference::swiglu(v, up); }, x, nc, s.dgate, seed);
    check_gradient("swiglu dup", [&](const Vector& v) { return reference::swiglu(x, v); }, up, nc, s.dup, seed);

    const reference::Ids ids = {3, 0, 3, 1};
    const Vector table = reference_normal(4 * 5, seed + 80), ec = reference_normal(20, seed + 81);
    check_gradient(
        "embedding", [&](const Vector& v) { return reference::embedding(5, ids, v); }, table, ec,
        reference::embedding_backward(4, 5, ids, ec), seed);
  }
}

TEST_CASE("reference gradients agree with finite differences: attention") {
  for (std::uint64_t seed : {3, 4, 5}) {
    CAPTURE(seed);
    reference::AttentionCase c{2, 5, 4, 2, 3, seed == 4 ? Index{8} : Index{5}, 0.6, {}};
    if (seed == 5) c.first_key = {0, 0, 2, 2, 2, 0, 1, 1, 1, 4};
    const Vector q = reference_normal(2 * 5 * 4 * 3, seed), k = reference_normal(2 * c.kv_seq * 2 * 3, seed + 1);
    const Vector v = reference_normal(2 * c.kv_seq * 2 * 3, seed + 2), d = reference_normal(2 * 5 * 4 * 3, seed + 3);
    const auto g = reference::attention_backward(c, d, q, k, v);
    check_gradient(
        "attention dq", [&](const Vector& x) { return reference::attention(c, x, k, v).out; }, q, d, g.dq, seed);
    check_gradient(
        "attention dk", [&](const Vector& x) { return reference::attention(c, q, x, v).out; }, k, d, g.dk, seed);
    check_gradient(
        "attention dv", [&](const Vector& x) { return reference::attention(c, q, k, x).out; }, v, d, g.dv, seed);
  }
}

TEST_CASE("reference gradients agree with finite differences: cross-entropy; an ignored target has none") {
  const std::uint64_t seed = 6;
  const Vector z = reference_normal(4 * 9, seed), w = {0.5, 1.0, -2.0, 3.0};
  const reference::Ids targets = {2, -1, 8, 0};
  const Vector g = reference::cross_entropy_backward(9, z, targets, w);
  check_gradient(
      "cross-entropy", [&](const Vector& x) { return reference::cross_entropy(9, x, targets); }, z, w, g, seed);
  for (std::size_t j = 9; j < 18; ++j) CHECK(g[j] == 0.0);
}

TEST_CASE("a wrong gradient turns the finite-difference check red") {
  // The check itself is checked: d(x^2) is 2x, and 2x + 1e-3 must be seen.
  const Vector x = {1.5};
  const double numeric = ((1.5 + 1e-5) * (1.5 + 1e-5) - (1.5 - 1e-5) * (1.5 - 1e-5)) / 2e-5;
  CHECK(std::abs(numeric - 3.0) <= 1e-7);
  CHECK(std::abs(numeric - 3.001) > 1e-7);
  CHECK(normalised_error({1.0, 2.0, 3.0}, {1.0, 2.0, 3.01}) > tolerance(DType::f32));
}
