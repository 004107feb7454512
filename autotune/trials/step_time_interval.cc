#include "autotune/trials/step_time_interval.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

namespace longhaul {

double normal_z(double confidence) {
  double low = 0, high = 40;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (std::erf(middle / std::numbers::sqrt2) < confidence ? low : high) = middle;
  }
  return (low + high) / 2;
}

double student_t(double confidence, int freedom) {
  const double n = freedom;
  if (freedom <= 1) return std::tan(std::numbers::pi / 2 * confidence);
  if (freedom == 2) return confidence * std::sqrt(2 / (1 - confidence * confidence));
  const double x = normal_z(confidence), x2 = x * x;
  const double g1 = x * (x2 + 1) / 4;
  const double g2 = x * ((5 * x2 + 16) * x2 + 3) / 96;
  const double g3 = x * (((3 * x2 + 19) * x2 + 17) * x2 - 15) / 384;
  const double g4 = x * ((((79 * x2 + 776) * x2 + 1482) * x2 - 1920) * x2 - 945) / 92160;
  return x + g1 / n + g2 / (n * n) + g3 / (n * n * n) + g4 / (n * n * n * n);
}

namespace {

// Slow minutes make a step like the one before it: the variance of means of batches of consecutive steps over what it
// would be if steps had nothing to do with each other.
struct Batches {
  int count = 0;         // 0: too few steps
  double inflation = 1;  // of the variance of a mean of all steps
};

Batches batches_of(const std::vector<double>& values, double mean, double variance) {
  constexpr int batches_max = 10, batch_min = 4;
  const auto n = static_cast<int>(values.size());
  const int count = std::min(batches_max, n / batch_min);
  if (count < batches_max / 2 || variance <= 0) return {};
  const int size = n / count;
  double squares = 0, sum = 0;
  for (int batch = 0; batch < count; ++batch) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(batch) * size;
    const double off = std::accumulate(begin, begin + size, 0.0) / size - mean;
    squares += off * off, sum += off;
  }
  const double between = (squares - sum * sum / count) / (count - 1);
  return {count, size * between / variance};
}

}  // namespace

StepTimeInterval step_time_interval(std::span<const double> step_seconds, double confidence, double repeat_sigma) {
  std::vector<double> values;  // in the order of the steps
  for (const double seconds : step_seconds)
    if (std::isfinite(seconds) && seconds > 0) values.push_back(seconds);
  std::vector<double> sorted = values;
  const auto n = static_cast<int>(sorted.size());
  StepTimeInterval interval;
  if (n < steps_for_interval) return interval;
  std::sort(sorted.begin(), sorted.end());
  const int cut = 3 * n / 10, kept = n - 2 * cut;
  const auto at = [&](int i) { return sorted.begin() + i; };
  interval.centre = std::accumulate(at(cut), at(n - cut), 0.0) / kept;
  for (double& value : values) value = std::clamp(value, *at(cut), *at(n - 1 - cut));
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const std::ptrdiff_t fastest = std::max(2, n / 5);
  interval.floor = std::accumulate(sorted.begin(), sorted.begin() + fastest, 0.0) / static_cast<double>(fastest);
  interval.steps = n;
  const double error = std::sqrt(squares / (static_cast<double>(kept) * (kept - 1)));
  double half = student_t(confidence, kept - 1) * error;
  const Batches batches = batches_of(values, mean, squares / (n - 1));
  if (batches.count > 0)
    half = std::max(half, student_t(confidence, batches.count - 1) * error * std::sqrt(batches.inflation));
  half = std::hypot(half, normal_z(confidence) * repeat_sigma * interval.centre);
  interval.low = interval.centre - half;
  interval.high = interval.centre + half;
  return interval;
}

}  // namespace longhaul
