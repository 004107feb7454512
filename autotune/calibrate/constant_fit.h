// Fits constants of the time model to what was timed: least squares of the logarithm of predicted over measured,
// flattened for outliers (pseudo-Huber), together with what was believed of each constant before; Levenberg-Marquardt
// with numeric derivatives (Madsen, Nielsen & Tingleff 2004, section 3.2). Published runs (tests/bench/autotune) and
// those of a site (calibration.h) are fitted by the same code.
#pragma once

#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "autotune/hardware/time_constants.h"

namespace longhaul {

// What is believed of a constant before: its value, the standard deviation of its logarithm, and where it must lie.
struct FitParameter {
  std::string path;
  double start = 0, spread = 0;  // both positive
  double low = 0, high = std::numeric_limits<double>::infinity();
};

// Something that was timed, and what the time model says of it. Both in seconds and positive.
struct TimedRun {
  std::string name;
  double seconds = 0;
  double weight = 1;
  std::function<double(const TimeConstants&)> predicted;
};

struct FitOptions {
  int iterations = 40;
  double noise = 0.06;  // relative errors of this size are expected; beyond it they count ever less
};

struct FitReport {
  int evaluations = 0;
  double before = 0, after = 0;  // sums of squares
  // Of each parameter, in their order: the standard deviation of its logarithm that is left, over that before. Near 1:
  // the runs say nothing of it.
  std::vector<double> left;
};

// Changes the constants in `table`, beginning at their values. not_found: a parameter that the table lacks.
// invalid_input: a parameter or a time that is not positive, or a prediction that is none.
Result<FitReport> fit_constants(ConstantTable& table, std::span<const FitParameter> parameters,
                                std::span<const TimedRun> runs, const FitOptions& options);

}  // namespace longhaul
