// What the measured steps of one trial say about its step time: a centre that outliers do not move, and an interval
// that holds the true one with the given confidence.
#pragma once

#include <span>

namespace longhaul {

struct StepTimeInterval {
  double centre = 0;  // s
  double low = 0, high = 0;
  double floor = 0;  // s: mean of the fastest fifth of the steps, of two at least: who disturbs only ever adds time
  int steps = 0;     // that were measured; 0: nothing is known

  bool known() const { return steps > 0; }
  double half_width() const { return (high - low) / 2; }
};

// Steps below this are too few for an interval.
inline constexpr int steps_for_interval = 3;

// The mean of the middle 40 % of the steps (30 % trimmed on each side: slow steps come in groups), with the t interval
// of Yuen 1974 ("The two-sample trimmed t for unequal population variances", Biometrika 61): winsorised variance, h - 1
// degrees of freedom for h values in the middle. From 20 steps on it is widened, where steps come in slow and fast
// stretches, by the means of up to ten batches of consecutive steps (winsorised; Conway 1963, "Some tactical
// problems in digital simulation", Management Science 10). `repeat_sigma` is added in quadrature: the
// relative deviation between two jobs of the same settings, which no steps of one job can show. Values that are not
// finite or not positive are left out; the others come in the order of the steps. With fewer than steps_for_interval
// steps nothing is known.
StepTimeInterval step_time_interval(std::span<const double> step_seconds, double confidence, double repeat_sigma);

// The two-sided quantile of Student's t: P(|T| <= t) = confidence for `freedom` >= 1 degrees of freedom. Closed forms
// for 1 and 2; otherwise the expansion of Abramowitz & Stegun, 26.7.5, good to 1 % from 3 on at 99 % and below.
double student_t(double confidence, int freedom);
// P(|Z| <= z) = confidence of the normal distribution. Found by bisection of erf.
double normal_z(double confidence);

}  // namespace longhaul
