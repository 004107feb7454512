#include "engine/tasks/scores/paired_scores.h"

#include <doctest/doctest.h>

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
