#include <algorithm>
#include <limits>

#include "base/files/files.h"
#include "base/value/json.h"
#include "engine/ops/experts/moe_balance.h"
#include "tests/unit/engine/ops/moe_check.h"

using namespace longhaul;
using namespace longhaul::op_check;
using namespace longhaul::moe_check;

namespace {

template <class F>
void for_routers(int rounds, const F& fn) {
  std::uint64_t seed = 7000;
  for (int round = 0; round < rounds; ++round) {
    for (RouterScore score : kScores) {
      for (Index top_k = 1; top_k <= 4; ++top_k) {
        ++seed;
        const Router router = random_router(score, top_k, seed);
        CAPTURE(seed);
        INFO(router.text());
        fn(router, seed);
      }
    }
  }
}

reference::Ids select_of(const ComputeContext& context, const RouterShape& shape, std::span<const float> logits,
                         std::span<const float> bias = {}) {
  reference::Ids ids(static_cast<std::size_t>(shape.tokens * shape.top_k));
  moe_select(context, shape, logits, bias, ids);
  return ids;
}

RouterStatistics statistics_of(const ComputeContext& context, const RouterShape& shape, std::span<const float> logits,
                               std::span<const std::int32_t> ids, std::span<const std::uint8_t> mask = {}) {
  RouterStatistics statistics(shape.experts);
  moe_router_statistics(context, shape, logits, ids, statistics.values, mask);
  return statistics;
}

std::vector<int> loads_of(const reference::Ids& ids, Index experts) {
  std::vector<int> loads(static_cast<std::size_t>(experts), 0);
  for (std::int32_t id : ids) ++loads[static_cast<std::size_t>(id)];
  return loads;
}

}  // namespace

TEST_CASE("reference gradients of gates, balance and z losses agree with finite differences") {
  for_routers(1, [](const Router& router, std::uint64_t seed) {
    reference::MoeRouter r = router.exact();
    const Index tokens = 5;
    const Vector z = random_floats(tokens * r.experts, seed).exact, c = random_floats(tokens * r.top_k, seed + 1).exact;
    const reference::Ids ids = reference::moe_select(r, z, {});
    check_gradient(
        "gates", [&](const Vector& v) { return reference::moe_gates(r, v, ids); }, z, c,
        reference::moe_gates_backward(r, z, ids, c), seed);
    for (bool hugging_face : {false, true}) {
      check_gradient(
          "balance", [&](const Vector& v) { return Vector{reference::moe_balance_loss(r, v, ids, 0.7, hugging_face)}; },
          z, {1.0}, reference::moe_balance_loss_backward(r, z, ids, 0.7, hugging_face), seed);
    }
    check_gradient(
        "z", [&](const Vector& v) { return Vector{reference::moe_z_loss(r.experts, v, 0.3)}; }, z, {1.0},
        reference::moe_z_loss_backward(r.experts, z, 0.3), seed);
  });
}

TEST_CASE("selection follows the reference: three scores, bias, groups, top 1 to 4") {
  int compared = 0, close = 0;
  for (const Backend& on : kBackends) {
    for_routers(on.gpu ? 2 : 8, [&](const Router& router, std::uint64_t seed) {
      const OpContext context(seed % 9 == 0 ? 2 : 1, on);
      const Floats z = random_floats(router.shape.tokens * router.shape.experts, seed, 2.0);
      const Floats bias = router.with_bias ? random_floats(router.shape.experts, seed + 1, 0.3) : Floats{};
      if (reference::moe_select_gap(router.exact(), z.exact, bias.exact) < 1e-6) {
        ++close;
        return;
      }
      ++compared;
      CHECK(select_of(context, router.shape, z.f32, bias.f32) ==
            reference::moe_select(router.exact(), z.exact, bias.exact));
    });
  }
  CHECK(compared > 10 * close);
}

TEST_CASE("ties go to the lower index, of experts and of groups; NaN comes first; minus infinity is never preferred") {
  for (const Backend& on : kBackends) {
    const OpContext context(2, on);
    const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    RouterShape shape{.tokens = 4, .experts = 6, .top_k = 3};
    const std::vector<float> z = {1,    2,    2,   1,    2,    2,      //
                                  0,    0,    0,   0,    0,    0,      //
                                  5,    1,    nan, 7,    inf,  2,      //
                                  -inf, -inf, 3,   -inf, -inf, -inf};  //
    CHECK(select_of(context, shape, z) == reference::Ids{1, 2, 4, 0, 1, 2, 2, 4, 3, 2, 0, 1});
    shape.tokens = 2;
    shape.top_k = 2;
    shape.groups = 3;
    shape.groups_kept = 2;
    CHECK(select_of(context, shape, z) == reference::Ids{1, 4, 0, 1});  // group sums 3, 3, 4: groups 2 and 0
    shape = {.tokens = 1, .experts = 2, .top_k = 1, .score = RouterScore::softmax_all};
    std::vector<float> weights(1);
    moe_gate_forward(context, shape, std::vector<float>{nan, 1.0F}, select_of(context, shape, std::vector{nan, 1.0F}),
                     weights);
    CHECK(std::isnan(weights[0]));
  }
}

TEST_CASE("groups: the best single expert is out of reach when its group's two best sum to less") {
  const ComputeContext context(1);
  const RouterShape shape{.tokens = 1,
                          .experts = 6,
                          .top_k = 2,
                          .score = RouterScore::sigmoid,
                          .scaling = 1.0F,
                          .groups = 3,
                          .groups_kept = 1};
  const std::vector<float> z = {4.0F, -4.0F, 1.0F, 1.5F, -1.0F, -1.0F};
  CHECK(select_of(context, shape, z) == reference::Ids{3, 2});
}

TEST_CASE("the bias moves the selection and never the weights") {
  for (const Backend& on : kBackends) {
    const OpContext context(1, on);
    const RouterShape shape{.tokens = 1, .experts = 4, .top_k = 2, .score = RouterScore::sigmoid};
    const std::vector<float> z = {2.0F, 1.0F, 0.0F, -1.0F}, bias = {0.0F, -1.0F, 0.0F, 0.0F};
    const reference::Ids ids = select_of(context, shape, z, bias);
    CHECK(ids == reference::Ids{0, 2});
    std::vector<float> weights(2);
    moe_gate_forward(context, shape, z, ids, weights);
    const double a = 1.0 / (1.0 + std::exp(-2.0)), b = 0.5;
    CHECK(weights[0] == doctest::Approx(a / (a + b)).epsilon(1e-6));
    CHECK(weights[1] == doctest::Approx(b / (a + b)).epsilon(1e-6));
  }

  std::vector<float> moved = {0.0F, 0.5F, 0.0F};
  moe_bias_update(0.25F, std::vector<float>{9.0F, 3.0F, 6.0F}, moved);
  CHECK(moved == std::vector<float>{-0.25F, 0.75F, 0.0F});
}

TEST_CASE("gate weights and their gradient follow the reference") {
  for (const Backend& on : kBackends) {
    for_routers(on.gpu ? 1 : 2, [&](const Router& router, std::uint64_t seed) {
      const OpContext context(seed % 9 == 0 ? 2 : 1, on);
      const RouterShape& s = router.shape;
      const Floats z = random_floats(s.tokens * s.experts, seed, 2.0), g = random_floats(s.tokens * s.top_k, seed + 1);
      const reference::Ids ids = select_of(context, s, z.f32);
      std::vector<float> w(g.f32.size()), dz(z.f32.size(), 1.0F), added(z.f32.size(), 1.0F);
      moe_gate_forward(context, s, z.f32, ids, w);
      check_largest("weights", exact(w), reference::moe_gates(router.exact(), z.exact, ids), 2e-6);
      moe_gate_backward(context, s, z.f32, ids, g.f32, dz);
      Vector want = reference::moe_gates_backward(router.exact(), z.exact, ids, g.exact);
      if (s.score == RouterScore::softmax_selected && s.top_k == 1) {
        // p - p^2 / p, in which a GPU may round once where processors round twice.
        CHECK(largest(exact(dz)) <= (on.gpu ? 1e-6 : 0.0));
      } else {
        check_largest("dlogits", exact(dz), want, 3e-6);
      }
      moe_gate_backward(context, s, z.f32, ids, g.f32, added, true);
      for (double& value : want) value += 1.0;
      check_largest("dlogits accumulated", exact(added), want, 3e-6);
    });
  }
}

TEST_CASE("Mixtral's weights: softmax over all, divided by the sum of the selected, is softmax over the selected") {
  const ComputeContext context(1);
  RouterShape shape{.tokens = 20, .experts = 8, .top_k = 2};
  const Floats z = random_floats(160, 91, 2.0);
  const reference::Ids ids = select_of(context, shape, z.f32);
  std::vector<float> selected(40), all(40);
  moe_gate_forward(context, shape, z.f32, ids, selected);
  shape.score = RouterScore::softmax_all;
  moe_gate_forward(context, shape, z.f32, ids, all);
  for (std::size_t t = 0; t < 20; ++t) {
    const float sum = all[2 * t] + all[2 * t + 1];
    CHECK(selected[2 * t] == doctest::Approx(all[2 * t] / sum).epsilon(1e-6));
    CHECK(sum < 1.0F);
  }
}

TEST_CASE("sinkhorn selects by the balanced plan, evens out the load, and does not depend on threads") {
  const Backend others[] = {{CpuLevel::best}, kBackends[std::size(kBackends) - 1]};  // the last is a GPU, if any
  for (const Backend& on : others)
    for (std::uint64_t seed : {301, 302, 303}) {
      CAPTURE(seed);
      const RouterShape shape{.tokens = on.gpu ? 90 : 700,
                              .experts = 8,
                              .top_k = 1 + static_cast<Index>(seed % 3),
                              .score = RouterScore::softmax_all};
      Floats z = random_floats(shape.tokens * shape.experts, seed);
      for (Index t = 0; t < shape.tokens; ++t) {  // everybody prefers experts 0 to 3
        for (Index e = 0; e < 4; ++e) z.f32[static_cast<std::size_t>(t * 8 + e)] += 3.0F;
      }
      z.exact = exact(z.f32);
      const OpContext one(1, on);
      const ComputeContext four(4);
      const auto slots = static_cast<std::size_t>(shape.tokens * shape.top_k);
      reference::Ids tight(slots), plain(slots), threads(slots);
      SinkhornReport report, usual, cut;
      moe_select_sinkhorn(one, shape, z.f32, {1e-13, 0.0, 100000}, tight, &report);
      CHECK(report.change <= 1e-13);
      const Vector plan = reference::moe_sinkhorn_plan(8, z.exact);
      for (Index t = 0; t < shape.tokens; ++t) {
        const Vector row(plan.begin() + t * 8, plan.begin() + (t + 1) * 8);
        std::vector<double> sorted = row;
        std::sort(sorted.rbegin(), sorted.rend());
        for (Index j = 0; j < shape.top_k; ++j) {
          const double chosen = row[static_cast<std::size_t>(tight[static_cast<std::size_t>(t * shape.top_k + j)])];
          CHECK(chosen >= sorted[static_cast<std::size_t>(j)] * (1.0 - 1e-9));
        }
      }
      moe_select_sinkhorn(one, shape, z.f32, {}, plain, &usual);
      CHECK(usual.change <= 1e-4);
      CHECK(usual.iterations < report.iterations);
      moe_select_sinkhorn(on.gpu ? static_cast<const ComputeContext&>(one) : four, shape, z.f32, {}, threads);
      CHECK(threads == plain);
      const std::vector<int> before = loads_of(select_of(one, shape, z.f32), 8), after = loads_of(plain, 8);
      const int fair = static_cast<int>(shape.tokens * shape.top_k / 8);
      CHECK(*std::max_element(before.begin(), before.end()) > fair * 3 / 2);
      CHECK(*std::max_element(after.begin(), after.end()) < fair * (on.gpu ? 6 : 5) / 4);  // of few tokens
      const RouterShape few{.tokens = 3, .experts = 4, .top_k = 2};
      reference::Ids ids(6);
      moe_select_sinkhorn(one, few, random_floats(12, 5).f32, {0.0, 1e-8, 3}, ids, &cut);
      CHECK(cut.iterations == 3);
      moe_select_sinkhorn(one, few, std::vector<float>{900, -900, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0}, {}, ids, &cut);
      CHECK(cut.change <= 1e-4);  // far apart, no overflow
    }
}

TEST_CASE("sinkhorn gives tokens beside padding what it gives them alone") {
  const Backend others[] = {{CpuLevel::best}, kBackends[std::size(kBackends) - 1]};  // the last is a GPU, if any
  for (const Backend& on : others) {
    CAPTURE(on.gpu);
    const OpContext context(1, on);
    const RouterShape shape{.tokens = 60, .experts = 8, .top_k = 2, .score = RouterScore::softmax_all};
    const Floats z = random_floats(shape.tokens * shape.experts, 311, 2.0);
    reference::Ids alone(120);
    SinkhornReport of_alone, of_both;
    moe_select_sinkhorn(context, shape, z.f32, {}, alone, &of_alone);
    std::vector<float> both;
    std::vector<bool> is_padding;
    for (Index t = 0; t < shape.tokens; ++t) {
      for (int i = 0; i < (t % 7 == 0 ? 2 : 0); ++i) {
        both.insert(both.end(), 8, -std::numeric_limits<float>::infinity());
        is_padding.push_back(true);
      }
      both.insert(both.end(), z.f32.begin() + t * 8, z.f32.begin() + (t + 1) * 8);
      is_padding.push_back(false);
    }
    RouterShape more = shape;
    more.tokens = static_cast<Index>(is_padding.size());
    reference::Ids chosen(2 * is_padding.size());
    moe_select_sinkhorn(context, more, both, {}, chosen, &of_both);
    CHECK(of_both.iterations == of_alone.iterations);
    reference::Ids of_tokens;
    for (std::size_t t = 0; t < is_padding.size(); ++t) {
      if (is_padding[t])
        CHECK((chosen[2 * t] == 0 && chosen[2 * t + 1] == 1));
      else
        of_tokens.insert(of_tokens.end(), {chosen[2 * t], chosen[2 * t + 1]});
    }
    CHECK(of_tokens == alone);
    const RouterShape none{.tokens = 2, .experts = 8, .top_k = 2};
    reference::Ids of_none(4);
    moe_select_sinkhorn(context, none, std::vector<float>(16, -std::numeric_limits<float>::infinity()), {}, of_none);
    CHECK(of_none == reference::Ids{0, 1, 0, 1});
  }
}

TEST_CASE("statistics: counts, sums, both balance losses and the z loss follow the reference, with their gradients") {
  for (const Backend& on : kBackends) {
    for_routers(on.gpu ? 1 : 3, [&](const Router& router, std::uint64_t seed) {
      const OpContext context(seed % 9 == 0 ? 2 : 1, on);
      const RouterShape& s = router.shape;
      const reference::MoeRouter r = router.exact();
      const Floats z = random_floats(s.tokens * s.experts, seed, 2.0);
      const reference::Ids ids = select_of(context, s, z.f32);
      const RouterStatistics statistics = statistics_of(context, s, z.f32, ids);
      const std::vector<int> loads = loads_of(ids, s.experts);
      std::vector<float> counts(static_cast<std::size_t>(s.experts), 7.0F);
      moe_count(context, ids, counts);
      CHECK(std::equal(loads.begin(), loads.end(), statistics.counts().begin()));
      CHECK(std::equal(loads.begin(), loads.end(), counts.begin()));
      CHECK(statistics.tokens() == static_cast<float>(s.tokens));
      const RouterLoss megatron = moe_balance_loss(statistics, s.top_k, 0.01, BalanceLoss::megatron);
      const RouterLoss hugging_face = moe_balance_loss(statistics, s.top_k, 0.02, BalanceLoss::hugging_face);
      const RouterLoss spread = moe_z_loss(statistics, 0.03);
      CHECK(megatron.loss == doctest::Approx(reference::moe_balance_loss(r, z.exact, ids, 0.01, false)).epsilon(1e-6));
      CHECK(hugging_face.loss ==
            doctest::Approx(reference::moe_balance_loss(r, z.exact, ids, 0.02, true)).epsilon(1e-6));
      CHECK(hugging_face.loss == doctest::Approx(2.0 * static_cast<double>(s.top_k) * megatron.loss).epsilon(1e-9));
      CHECK(spread.loss == doctest::Approx(reference::moe_z_loss(s.experts, z.exact, 0.03)).epsilon(1e-6));
      std::vector<float> dz(z.f32.size(), 0.0F), slopes(static_cast<std::size_t>(s.experts + 3), 9.0F);
      RouterLossTerms terms{s.experts, s.top_k, 0.01, BalanceLoss::megatron, 0.03};
      moe_router_losses(context, terms, statistics.values, statistics.values, slopes);
      CHECK(static_cast<double>(slopes[slopes.size() - 2]) == doctest::Approx(megatron.loss).epsilon(1e-6));
      CHECK(static_cast<double>(slopes[slopes.size() - 1]) == doctest::Approx(spread.loss).epsilon(1e-6));
      moe_statistics_backward(context, s, z.f32, slopes, 0.5F, dz);
      terms.balance_coefficient = 0.02, terms.definition = BalanceLoss::hugging_face, terms.z_coefficient = 0;
      RouterStatistics none(s.experts);
      moe_router_losses(context, terms, statistics.values, none.values, slopes);
      CHECK(static_cast<double>(slopes[slopes.size() - 2]) == doctest::Approx(hugging_face.loss).epsilon(1e-6));
      CHECK(slopes[slopes.size() - 1] == 0.0F);
      moe_statistics_backward(context, s, z.f32, slopes, 0.5F, dz);
      moe_router_losses(context, {s.experts, s.top_k, 1.0, BalanceLoss::megatron, 1.0}, none.values, none.values,
                        slopes);  // no tokens: loss 0, gradient 0
      CHECK(slopes == std::vector<float>(slopes.size(), 0.0F));
      if (on.level == CpuLevel::portable) {  // of the host, in one piece
        std::vector<float> whole(z.f32.size(), 0.0F);
        const ComputeContext host(1, on.level);
        moe_statistics_backward(host, s, z.f32, megatron + spread, 0.5F, whole);
        moe_statistics_backward(host, s, z.f32, hugging_face, 0.5F, whole);
        CHECK(whole == dz);
      }
      const Vector a = reference::moe_balance_loss_backward(r, z.exact, ids, 0.01, false),
                   b = reference::moe_balance_loss_backward(r, z.exact, ids, 0.02, true),
                   c = reference::moe_z_loss_backward(s.experts, z.exact, 0.03);
      Vector want(a.size());
      for (std::size_t i = 0; i < a.size(); ++i) want[i] = 0.5 * (a[i] + b[i] + c[i]);
      check_largest("dlogits", exact(dz), want, 5e-6);
    });
  }
}

TEST_CASE("statistics of parts add up to those of the whole, so that ranks share one loss and its gradient") {
  for_routers(2, [](const Router& router, std::uint64_t seed) {
    const ComputeContext context(2);
    const RouterShape& s = router.shape;
    const Floats z = random_floats(s.tokens * s.experts, seed, 2.0);
    const reference::Ids ids = select_of(context, s, z.f32);
    RouterShape head = s, tail = s;
    head.tokens = s.tokens / 3;
    tail.tokens = s.tokens - head.tokens;
    const std::span<const float> all(z.f32), first = all.first(static_cast<std::size_t>(head.tokens * s.experts)),
                                             rest = all.subspan(first.size());
    const std::span<const std::int32_t> all_ids(ids);
    RouterStatistics sum =
        moe_router_statistics(context, head, first, all_ids.first(static_cast<std::size_t>(head.tokens * s.top_k)));
    sum.add(
        moe_router_statistics(context, tail, rest, all_ids.subspan(static_cast<std::size_t>(head.tokens * s.top_k))));
    const RouterStatistics whole = moe_router_statistics(context, s, z.f32, ids);
    check_largest("sums", exact(sum.values), exact(whole.values), 1e-6);
    const RouterLoss loss = moe_balance_loss(sum, s.top_k, 1.0, BalanceLoss::megatron) + moe_z_loss(sum, 1e-3);
    std::vector<float> parts(z.f32.size(), 0.0F), at_once(z.f32.size(), 0.0F);
    moe_statistics_backward(context, head, first, loss, 1.0F, std::span(parts).first(first.size()));
    moe_statistics_backward(context, tail, rest, loss, 1.0F, std::span(parts).subspan(first.size()));
    moe_statistics_backward(context, s, z.f32,
                            moe_balance_loss(whole, s.top_k, 1.0, BalanceLoss::megatron) + moe_z_loss(whole, 1e-3),
                            1.0F, at_once);
    check_largest("gradient", exact(parts), exact(at_once), 2e-6);
  });
  CHECK(moe_balance_loss(RouterStatistics(4), 2, 1.0, BalanceLoss::megatron).loss == 0.0);
  CHECK(moe_z_loss(RouterStatistics(4), 1.0).loss == 0.0);
}

TEST_CASE("Hugging Face's loss pools all layers before the product; Megatron's is a sum over layers") {
  const ComputeContext context(1);
  const RouterShape s{.tokens = 40, .experts = 6, .top_k = 2};
  RouterStatistics pooled(6);
  double by_layer = 0.0;
  Vector f(6, 0.0), p(6, 0.0);  // the definition written out: means over the tokens of all layers, one f per slot
  for (std::uint64_t layer = 0; layer < 3; ++layer) {
    const Floats z = random_floats(240, 50 + layer, 2.0);
    const reference::Ids ids = select_of(context, s, z.f32);
    const RouterStatistics one = moe_router_statistics(context, s, z.f32, ids);
    pooled.add(one);
    by_layer += moe_balance_loss(one, 2, 1.0, BalanceLoss::megatron).loss;
    const Vector probabilities = reference::softmax(6, z.exact, 1.0);
    for (std::size_t i = 0; i < probabilities.size(); ++i) p[i % 6] += probabilities[i] / 120.0;
    for (std::int32_t id : ids) f[static_cast<std::size_t>(id)] += 1.0 / 120.0;
  }
  double want = 0.0;
  for (std::size_t e = 0; e < 6; ++e) want += 6.0 * f[e] * p[e];
  const double got = moe_balance_loss(pooled, 2, 1.0, BalanceLoss::hugging_face).loss;
  CHECK(got == doctest::Approx(want).epsilon(1e-6));
  CHECK(std::abs(got - 2.0 * by_layer / 3.0) > 1e-4);
}

namespace {

Floats numbers_of(const Value& list) {
  Floats numbers;
  for (const Value& number : list.as_array()) {
    numbers.exact.push_back(number.as_number());
    numbers.f32.push_back(static_cast<float>(number.as_number()));
  }
  return numbers;
}

// Of one case of figures.json on one backend: a loss over its layers, and the gradient by their logits, to 1e-5.
void check_router_golden(const ComputeContext& context, const Value& golden, const char* name) {
  CAPTURE(name);
  const RouterShape s{.tokens = golden.get_integer("tokens"),
                      .experts = golden.get_integer("experts"),
                      .top_k = golden.get_integer("top_k")};
  std::vector<std::uint8_t> mask;
  for (const Value& one : golden.find("mask")->as_array()) mask.push_back(one.as_integer() != 0 ? 1 : 0);
  const bool pools = std::string(name) == "hugging_face", z_loss = std::string(name) == "z";
  std::vector<Floats> layers;
  std::vector<RouterStatistics> statistics;
  RouterStatistics pooled(s.experts);
  for (const Value& logits : golden.find("logits")->as_array()) {
    layers.push_back(numbers_of(logits));
    statistics.push_back(statistics_of(context, s, layers.back().f32, select_of(context, s, layers.back().f32), mask));
    pooled.add(statistics.back());
  }
  RouterLossTerms terms{s.experts, s.top_k, 1.0, pools ? BalanceLoss::hugging_face : BalanceLoss::megatron, 0.0};
  if (z_loss) terms.balance_coefficient = 0.0, terms.z_coefficient = 1.0;
  const auto at = static_cast<std::size_t>(s.experts + (z_loss ? 2 : 1));
  double loss = 0;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    const RouterStatistics& of = pools ? pooled : statistics[layer];
    std::vector<float> slopes(static_cast<std::size_t>(s.experts + 3)), gradient(layers[layer].f32.size(), 0.0F);
    moe_router_losses(context, terms, of.values, of.values, slopes);
    loss = pools ? slopes[at] : loss + slopes[at];
    moe_statistics_backward(context, s, layers[layer].f32, slopes, 1.0F, gradient, mask);
    const Value& gradients = *golden.find(name)->find("gradients");
    check_largest("gradient", exact(gradient), numbers_of(gradients.as_array()[layer]).exact, 1e-5);
  }
  CHECK(loss == doctest::Approx(golden.find(name)->get_number("loss")).epsilon(1e-5).scale(0));
}

}  // namespace

TEST_CASE("balance losses and z-loss, with and without padding, are transformers' and Megatron-Core's") {
  const std::string path = std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/golden/figures.json";
  const Value golden = *parse_json(read_file(path).value(), path).value().find("routers");
  REQUIRE(golden.size() == 4);
  for (const Backend& on : kBackends) {
    const OpContext context(1, on);
    for (const Value& one : golden.as_array())
      for (const char* name : {"hugging_face", "megatron", "z"}) check_router_golden(context, one, name);
  }
}

TEST_CASE("without ids the statistics count the plain top k, whatever bias and groups select") {
  for (const Backend& on : kBackends) {
    const OpContext context(2, on);
    RouterShape s{.tokens = 60, .experts = 8, .top_k = 2, .score = RouterScore::sigmoid};
    const Floats z = random_floats(480, 77), bias = random_floats(8, 78, 5.0);
    const reference::Ids plain = select_of(context, s, z.f32), biased = select_of(context, s, z.f32, bias.f32);
    CHECK(plain != biased);
    CHECK(statistics_of(context, s, z.f32, {}).values == statistics_of(context, s, z.f32, plain).values);
    CHECK(statistics_of(context, s, z.f32, {}).values != statistics_of(context, s, z.f32, biased).values);
  }
}

TEST_CASE("tokens that the mask leaves out count neither in the statistics nor in the gradient") {
  for (const Backend& on : kBackends) {
    const OpContext context(2, on);
    RouterShape s{.tokens = 300, .experts = 6, .top_k = 2, .score = RouterScore::sigmoid};
    const Floats z = random_floats(1800, 81);
    const reference::Ids ids = select_of(context, s, z.f32);
    std::vector<std::uint8_t> mask(300, 1);
    std::vector<float> left;  // the logits of those that count
    reference::Ids left_ids;
    for (std::size_t t = 0; t < 300; ++t) {
      mask[t] = t % 3 == 0 ? 0 : 1;
      if (mask[t] == 0) continue;
      left.insert(left.end(), z.f32.begin() + static_cast<Index>(t) * 6, z.f32.begin() + static_cast<Index>(t) * 6 + 6);
      left_ids.insert(left_ids.end(), {ids[2 * t], ids[2 * t + 1]});
    }
    const RouterStatistics masked = statistics_of(context, s, z.f32, ids, mask);
    RouterShape few = s;
    few.tokens = 200;
    const RouterStatistics want = statistics_of(context, few, left, left_ids);
    CHECK(masked.tokens() == 200.0F);
    check_largest("statistics", exact(masked.values), exact(want.values), 1e-6);
    std::vector<float> dz(1800, 0.0F), dleft(1200, 0.0F), slopes(9);
    moe_router_losses(context, {6, 2, 1.0, BalanceLoss::megatron, 0.1}, masked.values, masked.values, slopes);
    moe_statistics_backward(context, s, z.f32, slopes, 1.0F, dz, mask);
    moe_statistics_backward(context, few, left, slopes, 1.0F, dleft);
    for (std::size_t i = 0, j = 0; i < dz.size(); ++i) {
      const float expected = mask[i / 6] == 0 ? 0.0F : dleft[j++];
      REQUIRE(dz[i] == expected);
    }
  }
}

TEST_CASE("router results have the same bits for every number of threads") {
  const ComputeContext one(1), three(3);
  const RouterShape s{.tokens = 1000, .experts = 16, .top_k = 4, .score = RouterScore::sigmoid};
  const Floats z = random_floats(16000, 61), g = random_floats(4000, 62);
  const reference::Ids ids = select_of(one, s, z.f32);
  CHECK(select_of(three, s, z.f32) == ids);
  CHECK(moe_router_statistics(one, s, z.f32, ids).values == moe_router_statistics(three, s, z.f32, ids).values);
  std::vector<float> a(16000), b(16000);
  moe_gate_backward(one, s, z.f32, ids, g.f32, a);
  moe_gate_backward(three, s, z.f32, ids, g.f32, b);
  CHECK(a == b);
}
