#include "autotune/hyper/parzen.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace longhaul::hyper {
namespace {

// No narrower than a search of some tens of points can distinguish, no wider than half the range.
constexpr double width_least = 0.04, width_most = 0.5;
constexpr double level_kept = 0.7;

double normal_share(double z) {
  return 0.5 * std::erfc(-z / std::numbers::sqrt2);
}

int level_at(double at, int levels) {
  return std::min(levels - 1, static_cast<int>(at * levels));
}

double standard_normal(PhiloxSequence& draws) {  // Box-Muller, one of the two
  const double radius = std::sqrt(-2 * std::log(1 - draws.next_uniform()));
  return radius * std::cos(2 * std::numbers::pi * draws.next_uniform());
}

}  // namespace

std::vector<double> kernel_widths(const std::vector<std::vector<double>>& points, std::size_t dims) {
  const auto n = static_cast<double>(std::max<std::size_t>(1, points.size()));
  const double shrink = std::pow(n, -1 / (static_cast<double>(dims) + 4));
  std::vector<double> widths;
  for (std::size_t dim = 0; dim < dims; ++dim) {
    double sum = 0, squares = 0;
    for (const auto& point : points) sum += point[dim], squares += point[dim] * point[dim];
    const double deviation = std::sqrt(std::max(0.0, squares / n - sum / n * (sum / n)));
    widths.push_back(std::clamp(deviation * shrink, width_least, width_most));
  }
  return widths;
}

ParzenDensity::ParzenDensity(std::vector<KernelDim> dims, std::vector<std::vector<double>> points,
                             std::vector<double> widths)
    : dims_(std::move(dims)), points_(std::move(points)), widths_(std::move(widths)) {}

double ParzenDensity::kernel(std::size_t dim, double at, double centre) const {
  const KernelDim& d = dims_[dim];
  if (!d.ordered) {
    const bool same = level_at(at, d.levels) == level_at(centre, d.levels);
    return (same ? level_kept * d.levels : 0) + 1 - level_kept;
  }
  const double h = widths_[dim], z = (at - centre) / h;
  const double inside = normal_share((1 - centre) / h) - normal_share(-centre / h);
  return std::exp(-z * z / 2) / (h * std::sqrt(2 * std::numbers::pi) * inside);
}

double ParzenDensity::log_density(const std::vector<double>& at) const {
  double sum = 1;
  for (const auto& point : points_) {
    double product = 1;
    for (std::size_t dim = 0; dim < dims_.size(); ++dim) product *= kernel(dim, at[dim], point[dim]);
    sum += product;
  }
  return std::log(sum / (static_cast<double>(points_.size()) + 1));
}

std::vector<double> ParzenDensity::draw(PhiloxSequence& draws) const {
  const std::uint64_t chosen = draws.next_below(points_.size() + 1);
  std::vector<double> at(dims_.size());
  for (std::size_t dim = 0; dim < dims_.size(); ++dim) {
    at[dim] = draws.next_uniform();
    if (chosen == points_.size()) continue;
    const double centre = points_[chosen][dim];
    if (!dims_[dim].ordered) {
      if (draws.next_uniform() < level_kept) at[dim] = centre;
      continue;
    }
    // What falls outside is drawn again; at a corner of the range half of a kernel lies inside.
    for (int i = 0; i < 32; ++i) {
      const double x = centre + widths_[dim] * standard_normal(draws);
      if (x < 0 || x > 1) continue;
      at[dim] = x;
      break;
    }
  }
  return at;
}

}  // namespace longhaul::hyper
