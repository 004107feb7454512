#include "autotune/trials/step_time_interval.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace longhaul {

TEST_CASE("quantiles are those of the tables") {
  CHECK(normal_z(0.95) == doctest::Approx(1.959964).epsilon(1e-6));
  CHECK(normal_z(0.99) == doctest::Approx(2.575829).epsilon(1e-6));
  CHECK(student_t(0.95, 1) == doctest::Approx(12.7062).epsilon(1e-4));
  CHECK(student_t(0.95, 2) == doctest::Approx(4.30265).epsilon(1e-4));
  CHECK(student_t(0.95, 3) == doctest::Approx(3.18245).epsilon(1e-2));
  CHECK(student_t(0.95, 8) == doctest::Approx(2.30600).epsilon(1e-3));
  CHECK(student_t(0.99, 20) == doctest::Approx(2.84534).epsilon(1e-3));
  CHECK(student_t(0.95, 100000) == doctest::Approx(normal_z(0.95)).epsilon(1e-4));
}

TEST_CASE("a few steps that took three times as long do not move the centre") {
  std::vector<double> steps(15, 0.5);
  for (std::size_t i = 0; i < steps.size(); ++i) steps[i] += 0.001 * static_cast<double>(i % 3);
  const auto clean = step_time_interval(steps, 0.95, 0);
  steps[4] = 1.5, steps[11] = 1.7;
  const auto dirty = step_time_interval(steps, 0.95, 0);
  CHECK(clean.centre == doctest::Approx(0.501).epsilon(1e-3));
  CHECK(dirty.centre == doctest::Approx(clean.centre).epsilon(2e-3));
  CHECK(dirty.high < 0.51);
  CHECK(dirty.low < dirty.centre);
}

TEST_CASE("too few steps, or none that is a number, say nothing; equal ones leave the deviation between jobs") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_FALSE(step_time_interval(std::vector<double>{1, 1}, 0.95, 0.01).known());
  CHECK_FALSE(step_time_interval(std::vector<double>{1, 1, nan, -1, 0}, 0.95, 0.01).known());
  const auto equal = step_time_interval(std::vector<double>{2, 2, 2, 2}, 0.95, 0.01);
  CHECK(equal.half_width() == doctest::Approx(2 * 0.01 * normal_z(0.95)));
  CHECK(step_time_interval(std::vector<double>{2, 2, 2, 2}, 0.95, 0).half_width() == 0);
}

TEST_CASE("an interval of 95 % holds the true centre in about 95 of 100 cases") {
  const std::uint64_t seed = 7;
  MESSAGE("seed ", seed);
  std::mt19937_64 random(seed);
  std::normal_distribution<double> noise(1, 0.05);
  int held = 0;
  constexpr int cases = 2000;
  for (int i = 0; i < cases; ++i) {
    std::vector<double> steps;
    for (int step = 0; step < 12; ++step) steps.push_back(noise(random));
    const auto interval = step_time_interval(steps, 0.95, 0);
    held += interval.low <= 1 && 1 <= interval.high;
  }
  CHECK(held > 0.93 * cases);
  CHECK(held < 0.975 * cases);
}

TEST_CASE("where steps come in slow and fast stretches an interval is wider") {
  const std::uint64_t seed = 11;
  MESSAGE("seed ", seed);
  std::mt19937_64 random(seed);
  std::normal_distribution<double> noise(0, 0.03);
  std::bernoulli_distribution changes(1.0 / 15);  // a stretch is 15 steps long
  int held = 0, held_mixed = 0;
  constexpr int cases = 1000, steps_of_trial = 150;
  for (int i = 0; i < cases; ++i) {
    std::vector<double> steps;
    bool slow = random() % 2 == 0;
    for (int step = 0; step < steps_of_trial; ++step) {
      if (changes(random)) slow = !slow;
      steps.push_back((slow ? 1.15 : 0.85) + noise(random));
    }
    const auto interval = step_time_interval(steps, 0.95, 0);
    held += interval.low <= 1 && 1 <= interval.high;
    std::shuffle(steps.begin(), steps.end(), random);  // the same steps without their order
    const auto mixed = step_time_interval(steps, 0.95, 0);
    held_mixed += mixed.low <= 1 && 1 <= mixed.high;
  }
  MESSAGE("held ", held, ", without their order ", held_mixed, " of ", cases);
  CHECK(held > 0.75 * cases);
  CHECK(held_mixed < 0.5 * cases);
}

}  // namespace longhaul
