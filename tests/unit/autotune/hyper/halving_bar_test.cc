// The bar: a learning rate within 2 % of the best loss of a full grid for at most 25 % of its cost - here on curves by
// formula, which cross and are measured with an error; tests/bench/autotune/hyper_bars.py shows it on real trainings.
#include <doctest/doctest.h>

#include "tests/support/seed.h"
#include "tests/unit/autotune/hyper/toy_search.h"

namespace longhaul::hyper {
namespace {

constexpr int rates = 16;
constexpr std::int64_t whole = 1600;

HyperSearchSettings grid_search(const std::string& method) {
  HyperSearchSettings s;
  s.method = method, s.trials = rates, s.max_steps = whole;  // all else is default
  ValueArray grid;
  for (int i = 0; i < rates; ++i) grid.emplace_back(1e-5 * std::pow(10.0, 4.0 * i / (rates - 1)));
  s.space = {toy::list("optimizer.lr", grid)};
  return s;
}

struct Outcome {
  double loss_ratio = 0;  // of the found rate to the best of the grid, without the error of measurement
  double cost_share = 0;
  bool crossed = false;  // the best of the first rung is not the best at the end
};

Outcome search_on(const toy::Curves& curves, const HyperSearchSettings& settings, int slots, std::uint64_t seed) {
  const Halving h(settings);
  const auto history = toy::carry_out(h, slots, seed, toy::by_loss([&](const Value& c, std::int64_t step) {
                                        return curves.measured(c.get_number("optimizer.lr"), step);
                                      }));
  double best_early = HUGE_VAL, best_end = HUGE_VAL, rate_early = 0, rate_end = 0;
  for (const Value& rate : settings.space[0].values) {
    const double lr = rate.as_number();
    if (const double early = curves.exact(lr, 100); early < best_early) best_early = early, rate_early = lr;
    if (const double end = curves.exact(lr, whole); end < best_end) best_end = end, rate_end = lr;
  }
  const auto best = h.best(history);
  REQUIRE(best.has_value());
  CHECK(best->whole);
  return {curves.exact(best->settings.get_number("optimizer.lr"), whole) / best_end, h.cost(history).share(),
          rate_early != rate_end};
}

}  // namespace

namespace {

struct ManyOutcomes {
  int missed = 0, crossed = 0;
  double worst_ratio = 1, worst_cost = 0, mean_cost = 0;
};

constexpr int tasks = 200;

ManyOutcomes search_many(HyperSearchSettings settings, std::uint64_t seed) {
  ManyOutcomes all;
  for (int i = 0; i < tasks; ++i) {
    CAPTURE(i);
    settings.seed = i;
    const Outcome o = search_on(toy::Curves(seed + static_cast<std::uint64_t>(i)), settings, 4, seed + 1);
    all.missed += o.loss_ratio > 1.02, all.crossed += o.crossed;
    all.worst_ratio = std::max(all.worst_ratio, o.loss_ratio), all.worst_cost = std::max(all.worst_cost, o.cost_share);
    all.mean_cost += o.cost_share / tasks;
  }
  MESSAGE(settings.method << ", " << settings.finalists << " finalists: " << all.missed << " of " << tasks
                          << " above 2 %, worst " << 100 * (all.worst_ratio - 1) << " %, cost at most "
                          << 100 * all.worst_cost << " % of the grid, curves cross in " << all.crossed);
  return all;
}

}  // namespace

TEST_CASE("halving finds a rate within 2 % of the grid's best loss for at most a quarter of its cost") {
  const std::uint64_t seed = testing::seed(606);
  CAPTURE(seed);
  for (const std::string method : {"rounds", "asha"}) {
    CAPTURE(method);
    const ManyOutcomes all = search_many(grid_search(method), seed);
    CHECK(all.missed <= tasks / 50);  // the error of measurement may rank neighbours wrongly
    CHECK(all.mean_cost <= 0.25);
    CHECK(all.worst_cost <= (method == "rounds" ? 0.25 : 0.32));  // asha may promote one finalist too early
    CHECK(all.crossed >= tasks / 4);                              // or this would show nothing
  }
  // What the second finalist is for.
  HyperSearchSettings one = grid_search("rounds");
  one.finalists = 1;
  CHECK(search_many(one, seed).missed > tasks / 10);
}

}  // namespace longhaul::hyper
