#include "engine/align/labels/label_loss.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace longhaul;

namespace {

AlignSettings weighted(double beta, double desirable, double undesirable) {
  AlignSettings s;
  s.method = "kto", s.beta = beta, s.desirable_weight = desirable, s.undesirable_weight = undesirable;
  return s;
}

}  // namespace

TEST_CASE("kto: the loss is that of the paper for good and bad answers") {
  const AlignSettings s = weighted(0.1, 1.33, 0.5);
  // 1 - sigmoid(0.1 (5 - 2)) and 1 - sigmoid(0.1 (2 - 5)).
  CHECK(kto_loss(s, 5, 2, true).loss == doctest::Approx(1.33 * 0.42555748318834097));
  CHECK(kto_loss(s, 5, 2, false).loss == doctest::Approx(0.5 * 0.57444251681165903));
  CHECK(kto_loss(s, 2, 2, true).loss == doctest::Approx(1.33 / 2));
  CHECK(kto_loss(s, 1e6, 0, true).loss == doctest::Approx(0));
  CHECK(kto_loss(s, 1e6, 0, false).loss == doctest::Approx(0.5));
}

TEST_CASE("kto: slopes agree with finite differences, on both sides of the divergence") {
  const AlignSettings s = weighted(0.7, 1.2, 0.8);
  for (const bool desirable : {true, false})
    for (const double ratio : {-4.0, -0.3, 0.0, 0.9, 3.0})
      for (const double divergence : {0.0, 1.5}) {
        CAPTURE(desirable);
        CAPTURE(ratio);
        const double h = 1e-6;
        const double slope =
            (kto_loss(s, ratio + h, divergence, desirable).loss - kto_loss(s, ratio - h, divergence, desirable).loss) /
            (2 * h);
        CHECK(kto_loss(s, ratio, divergence, desirable).slope == doctest::Approx(slope).epsilon(1e-6));
        CHECK((kto_loss(s, ratio, divergence, desirable).slope < 0) == desirable);
      }
}

TEST_CASE("kto: the divergence is the mean log-ratio of mismatched answers, and never below zero") {
  CHECK(divergence_estimate(std::vector<double>{1, 2, 6}) == doctest::Approx(3));
  CHECK(divergence_estimate(std::vector<double>{-4, 1}) == 0);
  CHECK(divergence_estimate({}) == 0);
}
