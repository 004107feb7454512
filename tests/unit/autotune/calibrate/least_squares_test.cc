#include "autotune/calibrate/least_squares.h"

#include <doctest/doctest.h>

#include <cmath>

namespace longhaul {
namespace {

double squared_cost(const JacobianColumns& jacobian, const std::vector<double>& r, double damping,
                    const std::vector<double>& d) {
  double cost = 0;
  for (std::size_t k = 0; k < r.size(); ++k) {
    double moved = r[k];
    for (std::size_t i = 0; i < d.size(); ++i) moved += jacobian[i][k] * d[i];
    cost += moved * moved;
  }
  for (std::size_t i = 0; i < d.size(); ++i)
    for (const double slope : jacobian[i]) cost += damping * slope * slope * d[i] * d[i];
  return cost;
}

}  // namespace

TEST_CASE("a damped step is the least of its cost, and almost the whole way where damping is small") {
  const JacobianColumns jacobian = {{1, 2, 0, 1}, {0, 1, 3, -1}};
  const std::vector<double> r = {1, -2, 0.5, 4};
  for (const double damping : {1e-6, 0.1, 10.0}) {
    CAPTURE(damping);
    const std::vector<double> step = damped_step(jacobian, r, damping);
    REQUIRE(step.size() == 2);
    const double least = squared_cost(jacobian, r, damping, step);
    for (const double off : {-1e-3, 1e-3}) {
      CHECK(squared_cost(jacobian, r, damping, {step[0] + off, step[1]}) > least);
      CHECK(squared_cost(jacobian, r, damping, {step[0], step[1] + off}) > least);
    }
  }
  // r = -J (3, -2): without damping the step is (3, -2).
  std::vector<double> exact(4);
  for (std::size_t k = 0; k < 4; ++k) exact[k] = -(3 * jacobian[0][k] - 2 * jacobian[1][k]);
  const std::vector<double> whole = damped_step(jacobian, exact, 1e-12);
  CHECK(whole[0] == doctest::Approx(3));
  CHECK(whole[1] == doctest::Approx(-2));
}

TEST_CASE("standard deviations are those of the inverse, also where its square root is below double's precision") {
  // J^T J = [[2, 1], [1, 2]], whose inverse has 2/3 on its diagonal.
  const auto even = standard_deviations({{1, 1, 0}, {0, 1, 1}});
  CHECK(even[0] == doctest::Approx(std::sqrt(2.0 / 3)));
  CHECK(even[1] == doctest::Approx(std::sqrt(2.0 / 3)));
  // Columns that differ by 1e-9 in one entry: normal equations would find them equal.
  const auto near = standard_deviations({{1, 1e-9}, {1, 0}});
  CHECK(near[0] == doctest::Approx(1e9).epsilon(1e-6));
  CHECK(standard_deviations({}).empty());
  CHECK(damped_step({}, {1.0}, 0.1).empty());
}

}  // namespace longhaul
