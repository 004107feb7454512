// A density over the unit cube made of kernels around points, and of a uniform part that weighs as much as one point:
// it keeps everything possible. Along ordered coordinates the kernel is a normal density cut at 0 and 1; along others
// it keeps its level with a certain probability and takes any level with the rest (Aitchison & Aitken 1976).
#pragma once

#include <vector>

#include "base/digest/philox.h"

namespace longhaul::hyper {

struct KernelDim {
  bool ordered = true;
  int levels = 0;  // of a coordinate without order
};

// Of the kernels around these points: deviation * n^(-1 / (d + 4)) (Scott 1992), within bounds.
std::vector<double> kernel_widths(const std::vector<std::vector<double>>& points, std::size_t dims);

class ParzenDensity {
 public:
  // `widths`: of the ordered dims.
  ParzenDensity(std::vector<KernelDim> dims, std::vector<std::vector<double>> points, std::vector<double> widths);
  // Relative to the uniform density: 0 where there are no points.
  double log_density(const std::vector<double>& at) const;
  std::vector<double> draw(PhiloxSequence& draws) const;

 private:
  double kernel(std::size_t dim, double at, double centre) const;

  std::vector<KernelDim> dims_;
  std::vector<std::vector<double>> points_;
  std::vector<double> widths_;
};

}  // namespace longhaul::hyper
