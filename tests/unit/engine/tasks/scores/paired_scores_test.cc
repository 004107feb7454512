#include "engine/tasks/scores/paired_scores.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>

namespace longhaul {
namespace {

ItemScores scores_of(const std::vector<std::pair<int, bool>>& items) {
  ItemScores scores;
  scores.figures = {"accuracy"};
  for (const auto& [line, right] : items) {
    ScoredItem item;
    item.line = line, item.right = {right}, item.sample.set("answer", line * 10);
    scores.items.push_back(std::move(item));
  }
  return scores;
}

}  // namespace

TEST_CASE("the Wilson interval") {
  const Interval i = wilson_interval(8, 10);
  CHECK(i.low == doctest::Approx(0.4902).epsilon(1e-3));
  CHECK(i.high == doctest::Approx(0.9433).epsilon(1e-3));
  CHECK(wilson_interval(0, 10).low == doctest::Approx(0).scale(1));
}

TEST_CASE("the standard error of a share is that of the sample's mean") {
  CHECK(share_error(8, 10) == doctest::Approx(0.4216370214 / 3.1622776602));  // deviation of 8 ones and 2 zeros, n - 1
  CHECK(share_error(10, 10) == 0);
  CHECK(share_error(1, 1) == 0);
}

TEST_CASE("the paired interval is Newcombe's, and has a width where all pairs agree") {
  const auto check = [](PairedCounts counts, double low, double high) {
    const Interval i = paired_interval(counts);
    CHECK(i.low == doctest::Approx(low).epsilon(1e-4));
    CHECK(i.high == doctest::Approx(high).epsilon(1e-4));
  };
  check({36, 12, 2, 0}, 0.0569296, 0.3404276);  // negative correlation
  check({12, 9, 3, 6}, -0.0270926, 0.3990605);  // positive, corrected
  check({43, 0, 7, 0}, -0.2618619, -0.0397027);
  check({50, 0, 0, 0}, -0.0713475, 0.0713475);
  check({30, 0, 0, 20}, -0.0403803, 0.0403803);
  check({}, -1, 1);
}

TEST_CASE("a weighted mean and its standard error: the sample's where weights are 1, to first order where not") {
  const std::vector<ItemAmount> plain = {{0.2}, {0.4}, {0.9}};
  CHECK(weighted_mean(plain).value == doctest::Approx(0.5));
  CHECK(weighted_mean(plain).error == doctest::Approx(std::sqrt((0.09 + 0.01 + 0.16) / 2 / 3)));
  // Two of three instructions and none of one: 2 / 4, residuals 2 - 1.5 and 0 - 0.5.
  const std::vector<ItemAmount> weighted = {{2, 3}, {0, 1}};
  CHECK(weighted_mean(weighted).value == doctest::Approx(0.5));
  CHECK(weighted_mean(weighted).error == doctest::Approx(std::sqrt(2 * (0.25 + 0.25)) / 4));
  const std::vector<ItemAmount> one = {{3, 4}};
  CHECK(weighted_mean(one).error == 0);
  CHECK(normal_interval({0.5, 0.1}).low == doctest::Approx(0.5 - 0.1959964));
  CHECK(normal_interval({0.5, 0.1}).high == doctest::Approx(0.5 + 0.1959964));
}

TEST_CASE("of no item a share has the whole interval, a mean is 0; items without weight change no mean") {
  CHECK(wilson_interval(0, 0).low == 0);
  CHECK(wilson_interval(0, 0).high == 1);
  CHECK(share_error(0, 0) == 0);
  const WeightedMean none = weighted_mean(std::span<const ItemAmount>());
  CHECK(none.value == 0);
  CHECK(none.error == 0);
  const std::vector<ItemAmount> weightless = {{0, 0}, {0, 0}};
  CHECK(weighted_mean(weightless).value == 0);
  CHECK(weighted_mean(weightless).error == 0);
  const std::vector<ItemAmount> beside = {{2, 3}, {0, 0}, {1, 1}};
  CHECK(weighted_mean(beside).value == doctest::Approx(0.75));
  const ItemScores nothing = scores_of({});
  CHECK(count_pairs(nothing, scores_of({{1, true}}), 0).items() == 0);
  CHECK(sample_lines(nothing, "m", "t").empty());
}

TEST_CASE("pass at k is the share of all choices of k answers in which one is right") {
  for (int answers = 1; answers <= 7; ++answers)
    for (int right = 0; right <= answers; ++right)
      for (int tries = 1; tries <= answers; ++tries) {
        int choices = 0, with_right = 0;  // answers below `right` are right
        for (unsigned chosen = 0; chosen < 1U << answers; ++chosen) {
          if (std::popcount(chosen) != tries) continue;
          ++choices;
          with_right += (chosen & ((1U << right) - 1)) != 0 ? 1 : 0;
        }
        CHECK(pass_at_k(answers, right, tries) == doctest::Approx(static_cast<double>(with_right) / choices));
      }
  CHECK(pass_at_k(200, 1, 100) == doctest::Approx(0.5));
  CHECK(pass_at_k(200, 200, 1) == 1);
}

TEST_CASE("differences of means are taken of items that both models were asked") {
  const auto of = [](std::vector<std::pair<int, double>> items) {
    ItemScores scores;
    scores.means = {"mc2"};
    for (const auto& [line, value] : items) {
      ScoredItem item;
      item.line = line, item.amounts = {{value, 2}};
      scores.items.push_back(std::move(item));
    }
    return scores;
  };
  const auto differences = paired_differences(of({{1, 0.5}, {2, 1}, {4, 0.25}}), of({{1, 0.25}, {3, 9}, {4, 1}}), 0);
  REQUIRE(differences.size() == 2);
  CHECK(differences[0].value == doctest::Approx(0.25));
  CHECK(differences[1].value == doctest::Approx(-0.75));
  CHECK(differences[1].weight == 2);
}

TEST_CASE("items of two models are paired by their lines; what one alone was asked does not count") {
  const ItemScores first = scores_of({{1, true}, {2, true}, {4, false}, {5, false}, {9, true}});
  const ItemScores second = scores_of({{1, true}, {3, true}, {4, true}, {5, false}, {7, true}, {9, false}});
  const PairedCounts counts = count_pairs(first, second, 0);
  CHECK(counts.both == 1);
  CHECK(counts.first_alone == 1);
  CHECK(counts.second_alone == 1);
  CHECK(counts.neither == 1);
}

TEST_CASE("a sample's line says whose it is before what was kept") {
  CHECK(sample_lines(scores_of({{3, true}}), "baseline", "preference") ==
        "{\"model\":\"baseline\",\"task\":\"preference\",\"line\":3,\"answer\":30}\n");
}

}  // namespace longhaul
