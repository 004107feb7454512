#include "engine/tasks/scores/intervals.h"

#include <algorithm>
#include <cmath>

#include "base/error/result.h"
#include "base/text/text.h"

namespace longhaul {

Interval wilson_interval(double successes, double trials, double z) {
  if (trials <= 0) return {0, 1};
  const double p = successes / trials, z2 = z * z;
  const double center = (p + z2 / (2 * trials)) / (1 + z2 / trials);
  const double half = z / (1 + z2 / trials) * std::sqrt(p * (1 - p) / trials + z2 / (4 * trials * trials));
  return {center - half, center + half};
}

double share_error(double successes, double trials) {
  if (trials < 2) return 0;
  const double p = successes / trials;
  return std::sqrt(p * (1 - p) / (trials - 1));
}

namespace {

// Between the answers of both, towards 0 by half an item where it is positive.
double correlation(const PairedCounts& c) {
  const auto n = static_cast<double>(c.items()), both = static_cast<double>(c.both),
             first = static_cast<double>(c.first_alone), second = static_cast<double>(c.second_alone),
             neither = static_cast<double>(c.neither);
  const double margins = (both + first) * (second + neither) * (both + second) * (first + neither);
  if (margins <= 0) return 0;
  const double determinant = both * neither - first * second;
  const double corrected = determinant > 0 ? std::max(0.0, determinant - n / 2) : determinant;
  return corrected / std::sqrt(margins);
}

}  // namespace

Interval paired_interval(const PairedCounts& counts, double z) {
  const auto n = static_cast<double>(counts.items());
  if (n <= 0) return {-1, 1};
  const double right_first = static_cast<double>(counts.both + counts.first_alone),
               right_second = static_cast<double>(counts.both + counts.second_alone);
  const double p1 = right_first / n, p2 = right_second / n, phi = correlation(counts);
  const Interval one = wilson_interval(right_first, n, z), two = wilson_interval(right_second, n, z);
  const auto distance = [&](double a, double b) { return std::sqrt(std::max(0.0, a * a - 2 * phi * a * b + b * b)); };
  return {p1 - p2 - distance(p1 - one.low, two.high - p2), p1 - p2 + distance(one.high - p1, p2 - two.low)};
}

WeightedMean weighted_mean(std::span<const ItemAmount> items) {
  double values = 0, weights = 0, squares = 0;
  for (const ItemAmount& item : items) values += item.value, weights += item.weight;
  WeightedMean made;
  if (weights == 0) return made;
  made.value = values / weights;
  const auto n = static_cast<double>(items.size());
  for (const ItemAmount& item : items) {
    const double residual = item.value - made.value * item.weight;
    squares += residual * residual;
  }
  if (n >= 2) made.error = std::sqrt(squares * n / (n - 1)) / std::abs(weights);
  return made;
}

Interval normal_interval(const WeightedMean& mean, double z) {
  return {mean.value - z * mean.error, mean.value + z * mean.error};
}

double pass_at_k(std::int64_t answers, std::int64_t right, std::int64_t tries) {
  LH_ASSERT(tries >= 1 && tries <= answers && right >= 0 && right <= answers,
            format("{} right of {} answers, {} tries", right, answers, tries));
  if (answers - right < tries) return 1;
  double none = 1;  // of the tries is right
  for (std::int64_t i = answers - right + 1; i <= answers; ++i)
    none *= 1 - static_cast<double>(tries) / static_cast<double>(i);
  return 1 - none;
}

}  // namespace longhaul
