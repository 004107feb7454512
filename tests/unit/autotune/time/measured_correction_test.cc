// What measured trainings say of others. Random ones come from a seed that is printed.
#include "autotune/time/measured_correction.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

using namespace longhaul;

namespace {

Likeness training_like(int tp, int micro_batch_size, std::int64_t hidden = 1024) {
  TrainingTask task;
  task.shape.hidden_size = hidden, task.shape.num_hidden_layers = 16;
  task.sequence_length = 1024, task.global_batch_size = 64;
  TrainingLayout layout;
  layout.dims.tp = tp, layout.dims.dp_replicate = 8 / tp;
  layout.micro_batch_size = micro_batch_size;
  return likeness_of(task, layout);
}

}  // namespace

TEST_CASE("nothing measured corrects nothing") {
  const MeasuredCorrection none({}, 0.1, 0.005);
  CHECK(none.at(training_like(2, 1)).factor == 1);
  CHECK(none.at(training_like(2, 1)).sigma == 0.1);
}

TEST_CASE("what was measured is believed, its likes nearly, and of all others only the common factor") {
  const double ratio = std::log(3.0);
  const MeasuredCorrection one({{training_like(2, 1), ratio}}, 0.1, 0.005);
  CHECK(one.at(training_like(2, 1)).factor == doctest::Approx(3).epsilon(0.001));
  CHECK(one.at(training_like(2, 1)).sigma == doctest::Approx(0.005).epsilon(0.01));
  // Of another kind: both deviations are left, its own and that of the one that gave the factor.
  CHECK(one.at(training_like(4, 1)).factor == doctest::Approx(3).epsilon(0.01));
  CHECK(one.at(training_like(4, 1)).sigma == doctest::Approx(std::sqrt(2) * 0.1).epsilon(0.01));
  const double near = one.at(training_like(2, 2)).sigma, far = one.at(training_like(2, 8)).sigma;
  CHECK(0.005 < near);
  CHECK(near < far);
  CHECK(far < std::sqrt(2) * 0.1);
}

TEST_CASE("two kinds that err differently are distinguished") {
  const MeasuredCorrection two({{training_like(2, 1), std::log(1.2)}, {training_like(4, 1), std::log(0.8)}}, 0.2,
                               0.005);
  CHECK(two.at(training_like(2, 2)).factor > 1.1);
  CHECK(two.at(training_like(4, 2)).factor < 0.9);
  CHECK(two.at(training_like(8, 1)).factor == doctest::Approx(std::sqrt(1.2 * 0.8)).epsilon(0.01));
}

TEST_CASE("trainings of no kind share the common factor alone, also with themselves") {
  CHECK(alike({}, {}) == 0);
  const MeasuredCorrection one({{{}, std::log(2.0)}}, 0.1, 0.005);
  CHECK(one.at({}).factor == doctest::Approx(2).epsilon(0.01));
  CHECK(one.at({}).sigma > 0.13);
}

TEST_CASE("the more is measured the less is left to be wrong; the same twice is no trouble") {
  const unsigned seed = 20261123;
  CAPTURE(seed);
  std::mt19937 random(seed);
  std::vector<MeasuredRatio> seen;
  const Likeness asked = training_like(4, 4, 3000);
  double before = 10;
  for (int i = 0; i < 40; ++i) {
    const int tp = 1 << random() % 4;
    seen.push_back(
        {training_like(tp, 1 << random() % 4, 1024 << random() % 2), 0.01 * static_cast<double>(random() % 30)});
    seen.push_back(seen.back());
    const auto now = MeasuredCorrection(seen, 0.1, 0.005).at(asked);
    CHECK(std::isfinite(now.factor));
    CHECK(now.sigma <= before + 1e-9);
    before = now.sigma;
  }
  CHECK(before < 0.1);
}
