#include "autotune/hyper/proposals.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "base/value/json.h"
#include "tests/support/seed.h"
#include "tests/unit/autotune/hyper/toy_search.h"

namespace longhaul::hyper {
namespace {

HyperSearchSettings settings_of(std::vector<HyperParameter> space, const char* proposals, int trials) {
  HyperSearchSettings s;
  s.space = std::move(space), s.proposals = proposals, s.trials = trials, s.max_steps = 1;
  return s;
}

// A bowl with its least value 0 at rate 3e-3, decay 0.05, schedule b; the rate matters most.
double bowl(const Value& c) {
  const double rate = std::log10(c.get_number("lr") / 3e-3), decay = c.get_number("decay") - 0.05;
  return rate * rate + 4 * decay * decay + (c.get_string("schedule") == "b" ? 0 : 0.3);
}

std::vector<HyperParameter> bowl_space() {
  return {toy::range("lr", 1e-5, 1e-1, "log"), toy::range("decay", 0, 0.3), toy::list("schedule", {"a", "b", "c"})};
}

// The best of `trials` by proposals alone, every trial a whole training.
double best_of(const char* proposals, int trials, std::int64_t seed) {
  HyperSearchSettings s = settings_of(bowl_space(), proposals, trials);
  s.seed = seed;
  s.method = "asha";
  const Halving h(s);
  return h.best(toy::carry_out(h, 1, 1, toy::by_loss([](const Value& c, std::int64_t) { return bowl(c); })))->metric;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

TEST_CASE("spread points fill every part of the range evenly, in one and more dimensions") {
  for (const std::size_t dims : {1, 2, 3}) {
    CAPTURE(dims);
    std::vector<std::vector<double>> points;
    for (int i = 0; i < 64; ++i) points.push_back(spread_point(5, dims, i));
    for (std::size_t dim = 0; dim < dims; ++dim) {
      std::vector<int> counts(8);
      for (const auto& p : points) {
        REQUIRE(p[dim] >= 0);
        REQUIRE(p[dim] < 1);
        ++counts[static_cast<std::size_t>(p[dim] * 8)];
      }
      for (const int count : counts) {
        CHECK(count >= 5);
        CHECK(count <= 11);
      }
    }
  }
  // No gap of the golden-ratio sequence is wider than 2.7 / n; independent draws leave about log(n) / n.
  std::vector<double> line;
  for (int i = 0; i < 20; ++i) line.push_back(spread_point(9, 1, i)[0]);
  std::ranges::sort(line);
  double gap = line.front() + 1 - line.back();
  for (std::size_t i = 1; i < line.size(); ++i) gap = std::max(gap, line[i] - line[i - 1]);
  CHECK(gap < 2.7 / 20);
  CHECK(spread_point(1, 2, 0) != spread_point(2, 2, 0));
}

TEST_CASE("the same seed and history give the same proposal, another seed another") {
  for (const char* proposals : {"spread", "tpe"}) {
    CAPTURE(proposals);
    HyperSearchSettings s = settings_of(bowl_space(), proposals, 40);
    std::vector<Trial> history;
    for (int i = 0; i < 20; ++i) {
      const auto p = propose(s, history, i);
      REQUIRE(p.has_value());
      CHECK(propose(s, history, i)->settings == p->settings);
      history.push_back({trial_name(i), p->settings, {{0, RungEnd::done, bowl(p->settings), 1}}});
    }
    const auto here = propose(s, history, 20);
    s.seed = 1;
    CHECK(propose(s, history, 20)->settings != here->settings);
    CHECK(here->why == (std::string(proposals) == "tpe" ? "tpe: 3 good of 20" : "spread"));
  }
}

TEST_CASE("no configuration is proposed twice, also where only few are left") {
  for (const char* proposals : {"spread", "tpe"}) {
    CAPTURE(proposals);
    HyperSearchSettings s =
        settings_of({toy::list("a", {1, 2, 3, 4, 5}), toy::range("b", 1, 8, "log", true)}, proposals, 39);
    std::vector<Trial> history;
    std::set<std::string> seen;
    for (int i = 0; i < 40; ++i) {
      const auto p = propose(s, history, i);
      REQUIRE(p.has_value());
      CHECK(seen.insert(to_json(p->settings)).second);
      history.push_back({trial_name(i), p->settings, {{0, RungEnd::done, p->settings.get_number("b"), 1}}});
    }
    CHECK(!propose(s, history, 40));
  }
}

TEST_CASE("the model needs far fewer trials than even spreading where several parameters matter") {
  const std::int64_t seed = static_cast<std::int64_t>(testing::seed(31) % 1'000'000);
  CAPTURE(seed);
  std::vector<double> spread, model;
  for (int i = 0; i < 31; ++i) {
    spread.push_back(best_of("spread", 40, seed + i));
    model.push_back(best_of("tpe", 40, seed + i));
  }
  MESSAGE("median distance from the least value after 40 trials: spread " << median(spread) << ", tpe "
                                                                          << median(model));
  CHECK(median(model) < 0.25 * median(spread));
}

TEST_CASE("the model learns from all rungs, and takes failures for bad") {
  HyperSearchSettings s = settings_of({toy::range("x", 0, 1)}, "tpe", 100);
  // Rung 0 does not decide; rung 1 was reached on the left, and what is far right runs out of memory.
  std::vector<Trial> history;
  for (int i = 0; i < 20; ++i) {
    const double x = (i + 0.5) / 20;
    Trial t{trial_name(i), Value(ValueTable{{"x", x, {}}}), {{0, RungEnd::done, 3, 1}}};
    if (x < 0.2) t.results.push_back({1, RungEnd::done, 5, 3});  // more trained, whatever the number says
    if (x > 0.7) t.results = {{0, RungEnd::out_of_memory, 0, 0}};
    history.push_back(std::move(t));
  }
  int left = 0, right = 0;
  for (int i = 20; i < 60; ++i) {
    const double x = propose(s, history, i)->settings.get_number("x");
    left += x < 0.3, right += x > 0.7;
  }
  CHECK(left >= 30);
  CHECK(right <= 2);
}

TEST_CASE("a trial that was stopped from outside teaches the model nothing") {
  HyperSearchSettings s = settings_of({toy::range("x", 0, 1)}, "tpe", 100);
  std::vector<Trial> history;
  for (int i = 0; i < 20; ++i)
    history.push_back({trial_name(i), Value(ValueTable{{"x", (i + 0.5) / 20, {}}}), {{0, RungEnd::done, 1.0 * i, 1}}});
  const auto next = [&](RungEnd end) {
    std::vector<Trial> more = history;
    for (int i = 20; i < 40; ++i)
      more.push_back({trial_name(i), Value(ValueTable{{"x", 0.02 + 0.001 * i, {}}}), {{0, end, 0, 0}}});
    int there = 0;  // where all of those trials were, which is where the good ones are
    for (int i = 40; i < 80; ++i) there += propose(s, more, i)->settings.get_number("x") < 0.12;
    return there;
  };
  const int stopped = next(RungEnd::stopped), crashed = next(RungEnd::crashed);
  CHECK_MESSAGE(crashed < stopped, crashed << " and " << stopped);
}

}  // namespace longhaul::hyper
