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

StepTimeInterval step_time_interval(std::span<const double> step_seconds, double confidence, double repeat_sigma) {
  std::vector<double> sorted;
  for (const double seconds : step_seconds)
    if (std::isfinite(seconds) && seconds > 0) sorted.push_back(seconds);
  const auto n = static_cast<int>(sorted.size());
  StepTimeInterval interval;
  if (n < steps_for_interval) return interval;
  std::sort(sorted.begin(), sorted.end());
  const int cut = 3 * n / 10, kept = n - 2 * cut;
  double sum = 0, winsorised_sum = 0;
  for (int i = 0; i < n; ++i) {
    const double value = sorted[static_cast<std::size_t>(std::clamp(i, cut, n - 1 - cut))];
    winsorised_sum += value;
    if (i >= cut && i < n - cut) sum += value;
  }
  const double winsorised_mean = winsorised_sum / n;
  double squares = 0;
  for (int i = 0; i < n; ++i) {
    const double off = sorted[static_cast<std::size_t>(std::clamp(i, cut, n - 1 - cut))] - winsorised_mean;
    squares += off * off;
  }
  interval.centre = sum / kept;
  const std::ptrdiff_t fastest = std::max(2, n / 5);
  interval.floor = std::accumulate(sorted.begin(), sorted.begin() + fastest, 0.0) / static_cast<double>(fastest);
  interval.steps = n;
  const double error = std::sqrt(squares / (static_cast<double>(kept) * (kept - 1)));
  const double half =
      std::hypot(student_t(confidence, kept - 1) * error, normal_z(confidence) * repeat_sigma * interval.centre);
  interval.low = interval.centre - half;
  interval.high = interval.centre + half;
  return interval;
}

}  // namespace longhaul
