// The interval of saves: formulas against a brute-force search of the model that they approximate, then the chooser.
#include "resiliency/checkpoint_interval.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

#include "tests/support/expected_time.h"
#include "tests/support/seed.h"

namespace longhaul {
namespace {

// The interval of least expected time, by trying: a grid of half a per mille between w/100 and 20 M.
double best_interval_s(double stall_s, double mtbf_s) {
  double best = 0, least = 1e300;
  for (double tau = stall_s / 100; tau < 20 * mtbf_s; tau *= 1.0005) {
    const double factor = testing::expected_time_factor(tau, stall_s, mtbf_s, 0);
    if (factor < least) least = factor, best = tau;
  }
  return best;
}

IntervalSettings chooser_settings() {
  IntervalSettings settings;
  settings.mtbf_prior_s = 10'000;
  settings.stall_prior_s = 2;
  settings.step_prior_s = 1;
  return settings;
}

}  // namespace

TEST_CASE("Daly's interval is within 1 % of the brute-force optimum, and costs no more than 1 % over all stalls") {
  const double mtbfs[] = {60, 1800, 11'000, 600'000};
  const double shares[] = {1e-5, 1e-4, 1e-3, 0.01, 0.03, 0.1, 0.3, 1, 1.9};
  for (const double mtbf_s : mtbfs)
    for (const double share : shares) {
      CAPTURE(mtbf_s);
      CAPTURE(share);
      const double stall_s = share * mtbf_s;
      const double best = best_interval_s(stall_s, mtbf_s), daly = daly_interval_s(stall_s, mtbf_s);
      CHECK(testing::expected_time_factor(daly, stall_s, mtbf_s, 0) <=
            1.01 * testing::expected_time_factor(best, stall_s, mtbf_s, 0));
      if (share <= 0.3) CHECK(std::fabs(daly / best - 1) < 0.01);
      // Young's is the limit of short stalls.
      if (share <= 1e-4) CHECK(std::fabs(young_interval_s(stall_s, mtbf_s) / best - 1) < 0.01);
    }
}

TEST_CASE("the formulas agree with values computed by hand") {
  CHECK(young_interval_s(10, 11'000) == doctest::Approx(469.0416));
  // sqrt(2*10*11000) * (1 + sqrt(10/22000)/3 + 10/22000/9) - 10
  CHECK(daly_interval_s(10, 11'000) == doctest::Approx(469.0416 * (1 + 0.0213201 / 3 + 4.5454e-4 / 9) - 10));
  CHECK(daly_interval_s(100, 50) == 50);
  CHECK(testing::expected_time_factor(100, 0, 1e9, 0) == doctest::Approx(1));
  CHECK(testing::expected_time_factor(1, 0, 1000, 1000) == doctest::Approx(std::exp(1) * 1.0005));
}

TEST_CASE("the first hours follow the prior; what is measured takes over") {
  IntervalChooser chooser(chooser_settings());
  CHECK(chooser.mtbf_s() == doctest::Approx(10'000));
  CHECK(chooser.steps() == std::llround(daly_interval_s(2, 10'000)));
  // A failure in the first minute must not be taken for one a minute.
  chooser.ran(60, 60, 60);
  chooser.failed();
  CHECK(chooser.mtbf_s() == doctest::Approx(30'060 / 4.0).epsilon(0.01));
  // Two days with a failure an hour, saves of half a second and steps of two seconds.
  for (int hour = 0; hour < 48; ++hour) {
    chooser.ran(3600, 1800, 3600);
    chooser.saved(0.5, 1);
    chooser.failed();
  }
  CHECK(chooser.step_s() == doctest::Approx(2).epsilon(0.01));
  CHECK(chooser.stall_s() == 0.5);
  CHECK(chooser.mtbf_s() == doctest::Approx(3600).epsilon(0.1));
  CHECK(std::fabs(chooser.interval_s() / daly_interval_s(0.5, chooser.mtbf_s()) - 1) < 0.25);
}

TEST_CASE("a rate that was learnt is forgotten when the machine gets better") {
  IntervalSettings settings = chooser_settings();
  settings.memory_s = 24 * 3600;
  IntervalChooser chooser(settings);
  for (int i = 0; i < 48; ++i) {
    chooser.ran(1800, 1800, 1800);
    chooser.failed();
  }
  const double bad = chooser.mtbf_s();
  for (int day = 0; day < 7; ++day) chooser.ran(24 * 3600, 86'400, 24 * 3600);
  CHECK(bad < 3000);
  CHECK(chooser.mtbf_s() > 40'000);
}

TEST_CASE("the answer does not flap while measurements scatter") {
  const std::uint64_t seed = testing::seed(11);
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  IntervalChooser chooser(chooser_settings());
  std::uniform_real_distribution<double> stall(1.6, 2.4), step(0.97, 1.03);
  int changes = 0;
  std::int64_t before = chooser.steps();
  for (int i = 0; i < 2000; ++i) {
    const double seconds = 200 * step(random);
    chooser.ran(seconds, 200, seconds);
    chooser.saved(i % 17 == 16 ? 60 : stall(random), 5);  // now and then a file system is slow
    if (i % 50 == 49) chooser.failed();                   // every 10,000 s, as the prior says
    if (chooser.steps() != before) ++changes;
    before = chooser.steps();
  }
  CHECK(changes <= 4);
}

TEST_CASE("bounds hold, and no interval is shorter than a save takes to be whole") {
  IntervalSettings settings = chooser_settings();
  settings.steps_min = 50;
  settings.steps_max = 120;
  IntervalChooser chooser(settings);
  CHECK(chooser.steps() == 120);
  chooser.saved(0.001, 0);
  CHECK(chooser.steps() == 50);
  for (int i = 0; i < 9; ++i) chooser.saved(0.001, 90);
  CHECK(chooser.steps() == 90);
  for (int i = 0; i < 9; ++i) chooser.saved(50, 90);
  CHECK(chooser.steps() == 120);
}

}  // namespace longhaul
