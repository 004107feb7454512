// The operations put together to one layer (router, dispatch, SwiGLU experts, combine, shared expert, auxiliary losses)
// against the layer of the reference.
#include <limits>

#include "engine/ops/experts/moe_balance.h"
#include "engine/ops/experts/moe_dispatch.h"
#include "engine/ops/experts/moe_grouped_linear.h"
#include "engine/ops/linear/gemm.h"
#include "engine/ops/pointwise/elementwise.h"
#include "engine/ops/pointwise/swiglu.h"
#include "tests/unit/engine/ops/moe_check.h"

using namespace longhaul;
using namespace longhaul::op_check;
using namespace longhaul::moe_check;

namespace {

struct LayerCase {
  Router router;
  Index hidden = 8, ffn = 8, shared_ffn = 0;
  bool sinkhorn = false;
  double capacity_factor = 0.0;  // 0: dropless
  CapacityRule rule;
  std::string text() const {
    return format("{} hidden={} ffn={} shared={} sinkhorn={} capacity={} policy={} pad={}", router.text(), hidden, ffn,
                  shared_ffn, sinkhorn, capacity_factor, static_cast<int>(rule.policy), rule.pad);
  }
};

LayerCase layer_case(RouterScore score, Index top_k, std::uint64_t seed) {
  PhiloxSequence draw(seed, 9);
  LayerCase c;
  c.router = random_router(score, top_k, seed);
  c.hidden = 4 + static_cast<Index>(draw.next_below(40));
  c.ffn = 3 + static_cast<Index>(draw.next_below(50));
  c.shared_ffn = draw.next_below(2) == 0 ? 0 : 3 + static_cast<Index>(draw.next_below(40));
  c.sinkhorn = draw.next_below(4) == 0;
  const double factors[] = {0.0, 0.7, 1.3};
  c.capacity_factor = factors[draw.next_below(3)];
  c.rule.policy = draw.next_below(2) == 0 ? DropPolicy::probability : DropPolicy::position;
  c.rule.pad = draw.next_below(2) == 0;
  return c;
}

struct Mlps {  // of all experts, or of the shared one
  Values gate, up, down;
};
struct MlpGradients {
  Tensor gate, up, down;
};
struct Activations {
  Tensor gate, up, inner, y;
};

Mlps random_mlps(DType dtype, Index experts, Index hidden, Index ffn, std::uint64_t seed) {
  const Index n = experts * hidden * ffn;
  const double in = 1.0 / std::sqrt(static_cast<double>(hidden)), out = 1.0 / std::sqrt(static_cast<double>(ffn + 1));
  return {random_values(dtype, n, seed, in), random_values(dtype, n, seed + 1, in),
          random_values(dtype, n, seed + 2, out)};
}

// SwiGLU experts over sorted rows, and their gradient; the shared expert is a group of one.
struct Experts {
  Index count, hidden, ffn;
  std::vector<std::int64_t> offsets;

  GroupedLinearShape into() const { return {count, hidden, ffn}; }
  GroupedLinearShape out_of() const { return {count, ffn, hidden}; }
  Index rows() const { return offsets.back(); }

  Activations forward(const ComputeContext& context, const Mlps& w, ConstView x) const {
    const DType dtype = x.dtype();
    Activations a{Tensor(dtype, {rows(), ffn}), Tensor(dtype, {rows(), ffn}), Tensor(dtype, {rows(), ffn}),
                  Tensor(dtype, {rows(), hidden})};
    grouped_linear_forward(context, into(), offsets, x, w.gate, a.gate);
    grouped_linear_forward(context, into(), offsets, x, w.up, a.up);
    swiglu_forward(context, {rows(), ffn}, a.gate, a.up, a.inner);
    grouped_linear_forward(context, out_of(), offsets, a.inner, w.down, a.y);
    return a;
  }

  // The gradient by x, and by the weights.
  Tensor backward(const ComputeContext& context, const Mlps& w, Activations& a, ConstView x, ConstView dy,
                  MlpGradients& g) const {
    const DType dtype = x.dtype();
    Tensor dinner(dtype, {rows(), ffn}), dx(dtype, {rows(), hidden}), more(dtype, {rows(), hidden});
    g = {Tensor(DType::f32, {count, ffn, hidden}), Tensor(DType::f32, {count, ffn, hidden}),
         Tensor(DType::f32, {count, hidden, ffn})};
    grouped_linear_backward_input(context, out_of(), offsets, dy, w.down, dinner);
    grouped_linear_backward_weight(context, out_of(), offsets, dy, a.inner, g.down);
    swiglu_backward(context, {rows(), ffn}, dinner, a.gate, a.up, a.gate, a.up);
    grouped_linear_backward_input(context, into(), offsets, a.gate, w.gate, dx);
    grouped_linear_backward_input(context, into(), offsets, a.up, w.up, more);
    grouped_linear_backward_weight(context, into(), offsets, a.gate, x, g.gate);
    grouped_linear_backward_weight(context, into(), offsets, a.up, x, g.up);
    add(context, dx, more, dx);
    return dx;
  }
};

void check_layer(const LayerCase& c, DType dtype, std::uint64_t seed, Backend on = {}) {
  const OpContext context(seed % 9 == 0 ? 2 : 1, on);  // few parallel loops: they are slow on a crowded machine
  const RouterShape& s = c.router.shape;
  const Index n = s.tokens * c.hidden;
  const double limit = dtype == DType::f32 ? 1e-5 : 2e-2;
  const LinearShape router_linear{s.tokens, c.hidden, s.experts};
  const Values x = random_values(dtype, n, seed), dout = random_values(dtype, n, seed + 1);
  const Values router_weight =
      random_values(DType::f32, s.experts * c.hidden, seed + 2, 1.5 / std::sqrt(static_cast<double>(c.hidden)));
  const Mlps w = random_mlps(dtype, s.experts, c.hidden, c.ffn, seed + 3);
  const Mlps sw = random_mlps(dtype, 1, c.hidden, c.shared_ffn, seed + 6);
  const Floats bias = c.router.with_bias ? random_floats(s.experts, seed + 9, 0.2) : Floats{};
  const reference::MoeLayer layer{c.router.exact(), c.hidden,   c.ffn,        c.shared_ffn,  router_weight.exact,
                                  w.gate.exact,     w.up.exact, w.down.exact, sw.gate.exact, sw.up.exact,
                                  sw.down.exact,    0.05,       0.02};

  // Forward. The router works in f32.
  Tensor x32(DType::f32, {s.tokens, c.hidden}), z(DType::f32, {s.tokens, s.experts}), out(dtype, {s.tokens, c.hidden});
  cast(context, x, x32);
  linear_forward(context, router_linear, x32, router_weight, z);
  const std::span<const float> logits = z.span<float>();
  reference::Ids ids(static_cast<std::size_t>(s.tokens * s.top_k));
  if (c.sinkhorn) {
    moe_select_sinkhorn(context, s, logits, {}, ids);
  } else {
    moe_select(context, s, logits, bias.f32, ids);
  }
  std::vector<float> weights(ids.size()), dweights(ids.size());
  moe_gate_forward(context, s, logits, ids, weights);
  CapacityRule rule = c.rule;
  rule.capacity = c.capacity_factor == 0.0 ? 0 : moe_capacity(s.tokens, s.top_k, s.experts, c.capacity_factor);
  const DispatchPlan plan = c.capacity_factor == 0.0
                                ? moe_dispatch(s.tokens, s.top_k, s.experts, ids)
                                : moe_dispatch_capacity(s.tokens, s.top_k, s.experts, ids, weights, rule);
  const Experts experts{s.experts, c.hidden, c.ffn, plan.offsets}, shared{1, c.hidden, c.shared_ffn, {0, s.tokens}};
  Tensor rows(dtype, {plan.rows(), c.hidden});
  moe_permute(context, plan, c.hidden, x, rows);
  Activations a = experts.forward(context, w, rows), sa;
  if (c.shared_ffn > 0) {
    sa = shared.forward(context, sw, x);
    cast(context, sa.y, out);
  }
  moe_combine(context, plan, c.hidden, a.y, weights, out, c.shared_ffn > 0);
  std::vector<float> statistics(static_cast<std::size_t>(2 * s.experts + 2)),
      slopes(static_cast<std::size_t>(s.experts + 3));
  moe_router_statistics(context, s, logits, ids, statistics);
  moe_router_losses(context,
                    {s.experts, s.top_k, layer.balance_coefficient, BalanceLoss::megatron, layer.z_coefficient},
                    statistics, statistics, slopes);

  // The reference, on the same routing.
  reference::Ids kept;
  for (std::int32_t row : plan.slot_row) kept.push_back(row < 0 ? 0 : 1);
  const reference::MoeLayerResult want = reference::moe_layer(layer, x.exact, ids, kept);
  if (!c.sinkhorn && reference::moe_select_gap(layer.router, want.logits, bias.exact) > 1e-5) {
    CHECK(ids == reference::moe_select(layer.router, want.logits, bias.exact));
  }
  check_largest("logits", exact(logits), want.logits, 1e-5);
  check_largest("out", exact_of(out), want.out, limit);
  const float loss = slopes[slopes.size() - 2] + slopes[slopes.size() - 1];
  CHECK(static_cast<double>(loss) == doctest::Approx(want.auxiliary_loss).epsilon(1e-5));

  // Backward.
  const reference::MoeLayerGradient g = reference::moe_layer_backward(layer, x.exact, ids, kept, dout.exact);
  MlpGradients dw, dsw;
  Tensor dx(dtype, {s.tokens, c.hidden}), dx32(DType::f32, {s.tokens, c.hidden}),
      dx_router(dtype, {s.tokens, c.hidden});
  Tensor drouter_weight(DType::f32, {s.experts, c.hidden});
  std::vector<float> dlogits(logits.size());
  moe_combine_backward(context, plan, c.hidden, dout, a.y, weights, a.y, dweights);
  const Tensor drows = experts.backward(context, w, a, rows, a.y, dw);
  moe_gate_backward(context, s, logits, ids, dweights, dlogits);
  moe_statistics_backward(context, s, logits, slopes, 1.0F, dlogits);
  linear_backward_weight(context, router_linear, ConstView(dlogits), x32, drouter_weight);
  linear_backward_input(context, router_linear, ConstView(dlogits), router_weight, dx32);
  if (c.shared_ffn > 0) {
    const Tensor part = shared.backward(context, sw, sa, x, dout, dsw);
    cast(context, part, dx);
    check_largest("shared gate", exact_of(dsw.gate), g.dshared_gate, limit);
    check_largest("shared up", exact_of(dsw.up), g.dshared_up, limit);
    check_largest("shared down", exact_of(dsw.down), g.dshared_down, limit);
  }
  moe_permute_backward(context, plan, c.hidden, drows, dx, c.shared_ffn > 0);
  cast(context, dx32, dx_router);
  add(context, dx, dx_router, dx);
  check_largest("dx", exact_of(dx), g.dx, limit);
  check_largest("router weight", exact_of(drouter_weight), g.drouter_weight, limit);
  check_largest("gate", exact_of(dw.gate), g.dgate, limit);
  check_largest("up", exact_of(dw.up), g.dup, limit);
  check_largest("down", exact_of(dw.down), g.ddown, limit);
}

}  // namespace

TEST_CASE("the gradient of the reference layer agrees with finite differences") {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    CAPTURE(seed);
    const RouterScore score = kScores[seed % 3];
    reference::MoeLayer l{{5, 2, static_cast<reference::MoeScore>(score), 1.5},
                          4,
                          3,
                          seed % 2 == 0 ? Index{0} : Index{5},
                          {},
                          {},
                          {},
                          {},
                          {},
                          {},
                          {},
                          0.3,
                          0.1};
    const auto draw = [&](Index n, std::uint64_t what) { return random_floats(n, 100 * seed + what).exact; };
    l.router_weight = draw(20, 1);
    l.gate = draw(60, 2);
    l.up = draw(60, 3);
    l.down = draw(60, 4);
    l.shared_gate = draw(4 * l.shared_ffn, 5);
    l.shared_up = draw(4 * l.shared_ffn, 6);
    l.shared_down = draw(4 * l.shared_ffn, 7);
    const Vector x = draw(24, 8), c = draw(24, 9);
    const reference::Ids ids = reference::moe_select(l.router, reference::linear(6, 4, 5, x, l.router_weight, {}), {});
    reference::Ids kept(ids.size(), 1);
    kept[3] = 0;
    const reference::MoeLayerGradient g = reference::moe_layer_backward(l, x, ids, kept, c);
    Vector c_and_loss = c;
    c_and_loss.push_back(1.0);
    const auto run = [&](const reference::MoeLayer& layer, const Vector& at) {
      const reference::MoeLayerResult result = reference::moe_layer(layer, at, ids, kept);
      Vector y = result.out;
      y.push_back(result.auxiliary_loss);
      return y;
    };
    check_gradient("dx", [&](const Vector& v) { return run(l, v); }, x, c_and_loss, g.dx, seed);
    const auto check_weight = [&](const std::string& name, Vector reference::MoeLayer::* member,
                                  const Vector& gradient) {
      if ((l.*member).empty()) return;
      check_gradient(
          name,
          [&](const Vector& v) {
            reference::MoeLayer moved = l;
            moved.*member = v;
            return run(moved, x);
          },
          l.*member, c_and_loss, gradient, seed);
    };
    check_weight("router", &reference::MoeLayer::router_weight, g.drouter_weight);
    check_weight("gate", &reference::MoeLayer::gate, g.dgate);
    check_weight("up", &reference::MoeLayer::up, g.dup);
    check_weight("down", &reference::MoeLayer::down, g.ddown);
    check_weight("shared gate", &reference::MoeLayer::shared_gate, g.dshared_gate);
    check_weight("shared up", &reference::MoeLayer::shared_up, g.dshared_up);
    check_weight("shared down", &reference::MoeLayer::shared_down, g.dshared_down);
  }
}

TEST_CASE("the operations put together are the layer of the reference, forward and backward, in f32 and bf16") {
  std::uint64_t seed = 9000;
  for (int round = 0; round < 4; ++round) {
    for (RouterScore score : kScores) {
      for (Index top_k = 1; top_k <= 4; ++top_k) {
        for (DType dtype : kTypes) {
          ++seed;
          const LayerCase c = layer_case(score, top_k, seed);
          CAPTURE(seed);
          INFO(c.text(), " ", dtype_name(dtype));
          check_layer(c, dtype, seed);
        }
      }
    }
  }
}

TEST_CASE("the operations put together are the layer of the reference on every backend") {
  std::uint64_t seed = 9200;
  for (const Backend& on : kBackends) {
    for (RouterScore score : kScores) {
      for (DType dtype : kTypes) {
        ++seed;
        const LayerCase c = layer_case(score, 2, seed);
        INFO(case_text(c.text(), dtype, on, seed));
        check_layer(c, dtype, seed, on);
      }
    }
  }
}

TEST_CASE("the comparison of layers sees an error of three hundredths in one of many elements, and a NaN") {
  Vector want(1000, 0.5), got = want;
  want[3] = got[3] = 1.0;
  CHECK(error_of_largest(got, want) == 0.0);
  got[700] += 0.03;
  CHECK(error_of_largest(got, want) > 2e-2);
  got[700] = std::numeric_limits<double>::quiet_NaN();
  CHECK(error_of_largest(got, want) > 2e-2);
}
