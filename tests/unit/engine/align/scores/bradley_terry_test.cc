#include "engine/align/scores/bradley_terry.h"

#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>

using namespace longhaul;

TEST_CASE(
    "the loss of a pair of rewards by hand: -log sigmoid of the difference less the margin, and the sum's square") {
  const PairScoreLoss plain = bradley_terry_loss(1, 0, 0, 0);
  CHECK(plain.loss == doctest::Approx(0.31326168751822286).epsilon(1e-12));  // log(1 + 1/e)
  CHECK(plain.d_chosen == doctest::Approx(-0.2689414213699951).epsilon(1e-12));
  CHECK(plain.d_rejected == -plain.d_chosen);
  const PairScoreLoss with_margin = bradley_terry_loss(1, 0, 0.5, 0);
  CHECK(with_margin.loss == doctest::Approx(0.47407698418010663).epsilon(1e-12));  // log(1 + exp(-0.5))
  CHECK(with_margin.d_chosen == doctest::Approx(-0.3775406687981454).epsilon(1e-12));
  const PairScoreLoss centred = bradley_terry_loss(2, 1, 0.5, 0.01);
  CHECK(centred.loss == doctest::Approx(0.47407698418010663 + 0.09).epsilon(1e-12));
  CHECK(centred.d_chosen == doctest::Approx(-0.3775406687981454 + 0.06).epsilon(1e-12));
  CHECK(centred.d_rejected == doctest::Approx(0.3775406687981454 + 0.06).epsilon(1e-12));
  CHECK(bradley_terry_loss(0, 0, 0, 0).loss == doctest::Approx(std::log(2.0)).epsilon(1e-12));
  CHECK(bradley_terry_loss(-2000, 2000, 0, 0).loss == 4000);  // no overflow
  CHECK(bradley_terry_loss(2000, -2000, 0, 0).loss == 0);
}

TEST_CASE("derivatives of the loss of a pair of rewards agree with differences") {
  const double h = 1e-6;
  for (const double chosen : {-3.0, -0.2, 0.0, 1.7})
    for (const double rejected : {-1.1, 0.4, 2.5})
      for (const double margin : {0.0, 0.8})
        for (const double center : {0.0, 0.05}) {
          const auto loss = [&](double c, double r) { return bradley_terry_loss(c, r, margin, center).loss; };
          const PairScoreLoss at = bradley_terry_loss(chosen, rejected, margin, center);
          CHECK((loss(chosen + h, rejected) - loss(chosen - h, rejected)) / (2 * h) ==
                doctest::Approx(at.d_chosen).epsilon(1e-6));
          CHECK((loss(chosen, rejected + h) - loss(chosen, rejected - h)) / (2 * h) ==
                doctest::Approx(at.d_rejected).epsilon(1e-6));
        }
}
