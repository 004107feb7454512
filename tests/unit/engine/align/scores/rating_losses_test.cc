// The losses of values of attributes and of labels of steps: by hand, and against differences.
#include <doctest/doctest.h>

#include <cmath>

#include "engine/align/scores/attribute_loss.h"
#include "engine/align/scores/step_loss.h"

using namespace longhaul;

TEST_CASE("the loss of values of attributes is the sum of squares over those that there are") {
  const double numbers[] = {3.5, 1.0, 2.0}, values[] = {4.0, NAN, 0.5};
  const AttributeLoss loss = attribute_loss(numbers, values);
  CHECK(loss.loss == doctest::Approx(0.25 + 2.25).epsilon(1e-15));
  CHECK(loss.values == 2);
  CHECK(loss.absolute == doctest::Approx(2.0).epsilon(1e-15));
  CHECK(loss.slopes == std::vector<double>{-1.0, 0.0, 3.0});
  const double none[] = {NAN, NAN, NAN};
  CHECK(attribute_loss(numbers, none).loss == 0);
  CHECK(attribute_loss(numbers, none).values == 0);
}

TEST_CASE("the loss of a step is the cross-entropy of its label, also of one between right and wrong") {
  // By torch's formula of two classes with the numbers (0, s): log(exp(0) + exp(s)) - y s.
  CHECK(step_loss(0.7, 1).loss == doctest::Approx(0.4031860488854577).epsilon(1e-14));
  CHECK(step_loss(0.7, 0).loss == doctest::Approx(1.1031860488854577).epsilon(1e-14));
  CHECK(step_loss(-1.3, 0.25).loss == doctest::Approx(0.5660084538329921).epsilon(1e-14));
  CHECK(step_loss(0, 0.5).loss == doctest::Approx(std::log(2.0)).epsilon(1e-15));
  CHECK(step_loss(0.7, 1).slope == doctest::Approx(-0.33181222783183395).epsilon(1e-14));
  CHECK(step_loss(2000, 0).loss == 2000);  // no overflow
  CHECK(step_loss(-2000, 1).loss == 2000);
  CHECK(step_loss(2000, 1).loss == 0);
}

TEST_CASE("derivatives of the losses of attributes and of steps agree with differences") {
  const double h = 1e-6;
  for (const double number : {-3.0, -0.2, 0.0, 1.7})
    for (const double label : {0.0, 0.25, 1.0}) {
      const double rise = (step_loss(number + h, label).loss - step_loss(number - h, label).loss) / (2 * h);
      CHECK(rise == doctest::Approx(step_loss(number, label).slope).epsilon(1e-6));
      const double values[] = {NAN, label};
      const auto loss = [&](double second) {
        const double numbers[] = {7.0, second};
        return attribute_loss(numbers, values);
      };
      CHECK((loss(number + h).loss - loss(number - h).loss) / (2 * h) ==
            doctest::Approx(loss(number).slopes[1]).epsilon(1e-6));
      CHECK(loss(number).slopes[0] == 0);
    }
}
