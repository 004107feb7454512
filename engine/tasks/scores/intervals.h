// Standard errors and intervals of shares, and of the difference of two shares over the same items.
#pragma once

#include <cstdint>
#include <span>

namespace longhaul {

inline constexpr double z_of_95_pct = 1.959963984540054;

struct Interval {
  double low = 0, high = 0;
};
// Wilson score interval of a proportion (Wilson 1927), z = 1.96 for 95 %.
Interval wilson_interval(double successes, double trials, double z = z_of_95_pct);

// Standard error of a mean of ones and zeros: sqrt(p (1 - p) / (trials - 1)), the sample's standard deviation over
// sqrt(trials), as lm-evaluation-harness reports it. 0 for fewer than two trials.
double share_error(double successes, double trials);

// Items that two models were both asked, by who was right.
struct PairedCounts {
  std::int64_t both = 0, first_alone = 0, second_alone = 0, neither = 0;
  std::int64_t items() const { return both + first_alone + second_alone + neither; }
};
// Of (share of the first - share of the second); [-1, 1] where there is no item. Newcombe 1998, "Improved confidence
// intervals for the difference between binomial proportions based on paired data", Statistics in Medicine 17, method
// 10: Wilson's intervals of both, with the correlation of the pairs. It has a width
// even where all pairs agree.
Interval paired_interval(const PairedCounts& counts, double z = z_of_95_pct);

// One item's part of a mean: sum of values over sum of weights.
struct ItemAmount {
  double value = 0, weight = 1;
};
struct WeightedMean {
  double value = 0, error = 0;
};
// sum(value) / sum(weight), and its standard error to first order (the delta method: the residuals value - mean *
// weight, items as the units that are drawn). With weights of 1 it is the sample's standard deviation over
// sqrt(items), as lm-evaluation-harness reports it. The error is 0 for fewer than two items.
WeightedMean weighted_mean(std::span<const ItemAmount> items);
// Mean -+ z times its standard error.
Interval normal_interval(const WeightedMean& mean, double z = z_of_95_pct);

// Chance that one of `tries` answers is right where `right` of `answers` are: 1 - C(answers - right, tries) /
// C(answers, tries), the unbiased estimate of Chen et al. 2021, arXiv:2107.03374, equation 1. tries <= answers.
double pass_at_k(std::int64_t answers, std::int64_t right, std::int64_t tries);

}  // namespace longhaul
