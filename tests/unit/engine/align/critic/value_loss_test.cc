#include "engine/align/critic/value_loss.h"

#include <doctest/doctest.h>

#include "base/digest/philox.h"

using namespace longhaul;

namespace {

ValueLoss of_one(double bound, double value, double drawn, double target) {
  return value_loss(bound, {&value, 1}, {&drawn, 1}, {&target, 1});
}

}  // namespace

TEST_CASE("the critic's loss is the larger of the value's error and the bounded value's") {
  CHECK(of_one(0.2, 1.5, 1.5, 1).loss == doctest::Approx(0.125));
  // Moved by 1 towards the return of 2, of which 0.2 count: nothing is learnt.
  const ValueLoss towards = of_one(0.2, 2, 1, 2);
  CHECK(towards.loss == doctest::Approx(0.5 * 0.8 * 0.8));
  CHECK(towards.slopes[0] == 0);
  CHECK(towards.clipped == 1);
  // Moved away from it: its own error is larger, and counts.
  const ValueLoss away = of_one(0.2, 0, 1, 2);
  CHECK(away.loss == doctest::Approx(2));
  CHECK(away.slopes[0] == doctest::Approx(-2));
  CHECK(away.clipped == 0);
  CHECK(of_one(0, 2, 1, 2).loss == 0);  // no bound
  CHECK(of_one(0, 5, 1, 2).slopes[0] == doctest::Approx(3));
}

TEST_CASE("the critic's slopes agree with finite differences, within and beyond the bound") {
  const Philox random{9, 3};
  for (const double bound : {0.0, 0.2})
    for (std::uint64_t trial = 0; trial < 100; ++trial) {
      double values[3], drawn[3], targets[3];
      for (std::uint64_t t = 0; t < 3; ++t) {
        values[t] = random.uniform_double(trial * 9 + t);
        drawn[t] = random.uniform_double(trial * 9 + 3 + t), targets[t] = random.uniform_double(trial * 9 + 6 + t);
      }
      const ValueLoss at = value_loss(bound, values, drawn, targets);
      for (std::size_t t = 0; t < 3; ++t) {
        const double step = 1e-6, here = values[t];
        values[t] = here + step;
        const double above = value_loss(bound, values, drawn, targets).loss;
        values[t] = here - step;
        const double below = value_loss(bound, values, drawn, targets).loss;
        values[t] = here;
        CHECK((above - below) / (2 * step) == doctest::Approx(at.slopes[t]).epsilon(1e-5).scale(1));
      }
    }
}
