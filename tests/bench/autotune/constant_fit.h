// Fits the constants of the time model to runs: least squares of the logarithm of predicted over measured, flattened
// for outliers (pseudo-Huber), together with what was believed of each constant before; Levenberg-Marquardt with
// numeric derivatives (Madsen, Nielsen & Tingleff 2004, section 3.2).
#pragma once

#include "autotune/hardware/constant_table.h"
#include "published_runs.h"

namespace longhaul::bench {

struct WeightedRuns {
  std::vector<PublishedRun> runs;
  double weight = 1;  // of each
};

struct FitReport {
  int evaluations = 0;
  double before = 0, after = 0;  // sums of squares
};

// Changes the fitted constants of `table`, beginning at their values. Those that no run depends on stay at `start`.
Result<FitReport> fit_constants(ConstantTable& table, const std::vector<WeightedRuns>& data, int iterations);

}  // namespace longhaul::bench
