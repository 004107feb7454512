// What measured step times say of trainings that were not measured: predictions err alike where trainings are alike.
// The logarithm of measured over predicted is taken for a Gaussian process (Rasmussen & Williams 2006, equations 2.23
// and 2.24) whose prior is one unknown factor for all and a deviation that trainings share the more, the more they are
// alike.
#pragma once

#include <string>
#include <vector>

#include "autotune/time/step_time.h"

namespace longhaul {

// Where a training stands among others.
struct Likeness {
  std::string kind;  // two of different kinds have only the common factor in common; empty: of a kind of its own
  std::vector<double>
      at;  // coordinates, of the same number for all: e^(-1/2) are the deviations alike at a distance of 1
};
// By kind: tensor, context and expert parallelism, number format, recomputation. Distances, in octaves: 1 of the width,
// 1.3 of a micro-batch's tokens, 2.5 of stages and layers, 3 of replicas, 4.5 of micro-batches: the scales that one
// half of vTrain's runs on one node has (tests/bench/autotune/time_bars.cc shows what that does for the other half).
Likeness likeness_of(const TrainingTask& task, const TrainingLayout& layout);
// From 0 (nothing alike) to 1 (the same training).
double alike(const Likeness& a, const Likeness& b);

struct MeasuredRatio {
  Likeness like;
  double log_ratio = 0;  // natural logarithm of measured over predicted seconds
};

class MeasuredCorrection {
 public:
  // sigma: relative deviation of predictions, the common factor aside; repeat_sigma: of measuring again.
  MeasuredCorrection(std::vector<MeasuredRatio> seen, double sigma, double repeat_sigma);
  struct Factor {
    double factor = 1;  // to multiply a prediction with
    double sigma = 0;   // relative deviation of what results
  };
  // Of anything, once something was measured; before, 1 and `sigma`.
  Factor at(const Likeness& like) const;
  // Its factor alone: of its time linear in what was measured.
  double factor(const Likeness& like) const;

 private:
  double covariance(const Likeness& a, const Likeness& b) const;

  std::vector<MeasuredRatio> seen_;
  double sigma_;
  std::vector<std::vector<double>> triangle_;  // of the Cholesky decomposition, row by row
  std::vector<double> weights_;                // the covariance's inverse times the ratios
};

// Each part of the step times the factor, and how far what results may be wrong.
StepTime corrected(StepTime time, const MeasuredCorrection::Factor& by);

}  // namespace longhaul
